"""Write the opening of the page: one sentence about the gain and one picture, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.offline import Limits
from posse.report.gains import CONFIDENCE, LEARNED, ONE_ARM, RANDOM, RULE
from posse.report.words import SPACE, Words, article, count, in_their_words, many, one

if TYPE_CHECKING:
    from posse.offline import Estimate
    from posse.report.gains import Gains, Way
    from posse.report.report import Report

PROBABLY = 0.75  # from which on an arm that is probably best may be preferred
# Rows of each of two arms that show a difference of half the mean, at 95 % and with a power of 80 %, per squared
# coefficient of variation: 2 (1.96 + 0.84)^2 / 0.5^2.
ROWS_PER_ARM = 62.7
MULTIPLE = 1.5  # ratio from which on it is said as "times"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the picture.

    Parameters
    ----------
    label, name : str
        The name of an arm or of a rule may be empty.
    value : Estimate
    learned : bool
    """

    label: str
    name: str
    value: Estimate
    learned: bool = False


@dataclass(frozen=True, slots=True)
class Lead:
    """The opening of the page.

    Parameters
    ----------
    headline : str
    more : tuple of str
        Sentences that follow.
    bars : tuple of Bar
    words : Words
        For the numbers of the bars.
    prefers : bool
        Whether the data prefer any arm anywhere.
    """

    headline: str
    more: tuple[str, ...]
    bars: tuple[Bar, ...]
    words: Words
    prefers: bool


def lead_of(report: Report) -> Lead:
    """Return the opening of a page."""
    gains = report.gains
    words = _words(report)
    if not report.varies:
        headline = "All rewards so far are equal" if report.overview.n_rewards else "There are no rewards yet"
        which = f"so no {one(report.names.arm)} can be told from another."
        return Lead(f"{headline}, {which}", (), (), words, False)
    prefers, (undecided, needed) = _prefers(report), _undecided(report)
    if gains is None:
        headline = "The gain of the learned policy is unknown without a log of the decisions."
        need = "Let the fleet write one, Posse(..., log=...), and pass it: posse report FLEET --log LOG."
        return Lead(headline if prefers else undecided, (need,), (), words, prefers)
    known, bars = gains.learned.known, _bars(report, gains)
    headline, more = (_gain if known else _cannot_say)(report, gains, words)
    if prefers:
        return Lead(headline, more, bars, words, True)
    if known and not math.isfinite(gains.learned.uplift.low):
        headline, more, bars = _logged(report, gains, words), (), ()
    return Lead(undecided, (*needed, headline, *more), bars, words, False)


def _words(report: Report) -> Words:
    percent = report.earned == "binary"
    if report.gains is None:
        return Words.for_widths((report.best.high - report.best.low).ravel() / 2, report.unit, percent)
    estimates = [report.gains.logged, *(way.value for way in report.gains.ways)]
    widths = [found.high - found.low for found in estimates if math.isfinite(found.high - found.low)]
    typical = widths[1:2] or widths or [0.5 * abs(report.gains.earned.value)]
    return Words.for_widths(np.array(typical) / 2, report.unit, percent)


def _prefers(report: Report) -> bool:
    """Return whether the data prefer any arm: by a gain above zero, for sure in a task, or probably in the average."""
    gains, best = report.gains, report.best
    if gains is not None and gains.learned.known and gains.learned.uplift.low > 0:
        return True
    weights = best.rewards + 1e-9
    return bool(best.sure.any() or ((weights / weights.sum()) @ best.probability).max() >= PROBABLY)


def _undecided(report: Report) -> tuple[str, tuple[str, ...]]:
    """Return that no arm is preferred, and how many rewards would show one that is half as good again as the others."""
    names, gains, arm = report.names, report.gains, one(report.names.arm)
    numbers = report.earned in ("number", "money", "revenue")  # else rewards are counted
    too_few = f"Too few {'decisions' if numbers else many(names.reward)} to prefer any {arm}"
    if gains is None or not gains.earned.value > 0:
        return f"{too_few}: {report.overview.n_rewards:,.0f} so far.", ()
    rows, mean = gains.rows or gains.rows_in_log, gains.earned.value
    each, n_arms = ROWS_PER_ARM * gains.variance / mean**2, len(report.best.arms)
    if rows >= each * n_arms:
        return f"No {arm} earns clearly more than the others in {count(rows, 'decision')}.", ()
    what, so_far = "decision", count(rows, "decision")
    if not numbers:
        what, each, so_far = names.reward, each * mean, f"{count(rows * mean, names.reward)} in {so_far}"
    each, total = (math.ceil(float(f"{n:.2g}")) for n in (each, each * n_arms))
    needed = f"It takes about {count(each, what)} per {arm}, {total:,} in all, to show {article(arm)} that earns half "
    return f"{too_few}: {so_far}.", (f"{needed}as much again as the others.",)


def _cannot_say(report: Report, gains: Gains, words: Words) -> tuple[str, tuple[str, ...]]:
    why = [
        f"{in_their_words(refusal.reason, report.names)}. What helps: {in_their_words(refusal.remedy, report.names)}."
        for refusal in gains.learned.refusals
    ]
    headline = "The log cannot say what the learned policy would earn."
    more = [text[:1].upper() + text[1:] for text in why or ["there is too little to compare."]]
    return headline, (*more, *([_logged(report, gains, words)] if math.isfinite(gains.logged.value) else []))


def _logged(report: Report, gains: Gains, words: Words) -> str:
    return f"The log {_earns(report, 'earned', 'brought', 'was rewarded', words, gains.logged)}."


def _earns(report: Report, earn: str, bring: str, be: str, words: Words, value: Estimate) -> str:
    """Return that something earns so much: in per cent of decisions, as a number of rewards, or in their unit."""
    reward, family = report.names.reward, report.earned
    between = f" ({words.interval(value.low, value.high)})" if math.isfinite(value.low) else ""
    if family == "binary":
        what = be if reward == "reward" else f"{bring} {article(reward)}"
        return f"{what} in {words.reward(value.value)} of decisions{between}"
    if family == "count" and not report.unit:
        return f"{bring} {words.plain(value.value)} {many(reward)} per decision{between}"
    return f"{earn} {words.reward(value.value)} per decision{between}"


def _gain(report: Report, gains: Gains, words: Words) -> tuple[str, tuple[str, ...]]:
    value, uplift = gains.learned.value, gains.learned.uplift
    would = _earns(report, "would earn", "would bring", "would be rewarded", words, value)
    headline = f"The learned policy {would} instead of {words.reward(gains.logged.value)}"
    if not math.isfinite(uplift.low):
        headline += f": {words.difference(uplift.value)}, but the log cannot say how sure that is."
        more = [f"Where the two choose differently there are too few {many(report.names.reward)}."]
    else:
        ends = f"{words.signed(uplift.low)} to {words.difference(uplift.high)}"
        more = [f"The {100 * CONFIDENCE:g}{SPACE}% interval of the difference is {ends}{_these_only(report)}."]
        if uplift.low <= 0 <= uplift.high:
            headline += ": the difference may be chance."
        else:
            headline += f": {words.difference(uplift.value)}{_relative(value.value, gains.logged.value)}."
    if any(way.way == ONE_ARM and way.known and way.value.value >= value.value for way in gains.ways):
        more.append(f"The best single {one(report.names.arm)} everywhere would earn no less.")
    random = next((way for way in gains.ways if way.way == RANDOM and way.known), None)
    if random is None or not report.overview.n_decisions:
        return headline, tuple(more)
    # The log is of the fleet itself, which learned as it went: what it gained is its uplift over random choice.
    over_random = _over_random(report, gains, random, words)
    if random.uplift.high < 0 and not uplift.low > 0:
        return over_random, (headline, *more)
    return headline, (*more, over_random)


def _these_only(report: Report) -> str:
    """Return that an interval is about the few tasks there are."""
    n_tasks = len(report.best.tasks)
    if n_tasks >= Limits().min_tasks:
        return ""
    few = count(n_tasks, report.names.task)
    return f", for {'this' if n_tasks == 1 else 'these'} {few} and not for others like them"


def _over_random(report: Report, gains: Gains, random: Way, words: Words) -> str:
    """Return the uplift of the logged policy."""
    uplift = words.difference(-random.uplift.value)
    if math.isfinite(random.uplift.low):
        uplift += f" ({words.signed(-random.uplift.high)} to {words.signed(-random.uplift.low)})"
    return f"{_logged(report, gains, words)[:-1]}, {uplift} over random choice."


def _relative(new: float, old: float) -> str:
    """Return how much more that is, in words: nothing where it has no meaning."""
    if not (new > 0 and old > 0):
        return ""
    ratio = new / old
    if ratio >= MULTIPLE:
        return f", or {ratio:.1f} times as much"
    share = 100 * abs(ratio - 1)
    return f", or {share:.{0 if share >= 1 else 1}f}{SPACE}% {'more' if ratio > 1 else 'less'}"


def _bars(report: Report, gains: Gains) -> tuple[Bar, ...]:
    labels = {LEARNED: "Learned policy", ONE_ARM: f"Best single {one(report.names.arm)}", RULE: "The rule"}
    found = [
        Bar(labels[way.way], "" if way.way == LEARNED else way.name, way.value, way.way == LEARNED)
        for way in gains.ways
        if way.known and way.way in labels
    ]
    if not found:
        return ()
    found.append(Bar("The log", "", gains.logged))
    if report.overview.n_decisions:
        found += [Bar("Random choice", "", way.value) for way in gains.ways if way.way == RANDOM and way.known]
    return tuple(found)
