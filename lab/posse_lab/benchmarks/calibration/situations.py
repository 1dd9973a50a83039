"""The situations of ``posse lab bench calibration``: how to meet one, what to measure in it and what was promised."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from posse.errors import InvalidValue
from posse_lab.benchmarks.calibration import clicks, fleets, policies


@dataclass(frozen=True, slots=True)
class Quantity:
    """One line of the table, from one number per seed.

    Parameters
    ----------
    what : str
        What is measured, in words for a table.
    value : str
        The number's name in what a situation returns. The line shows its mean over seeds.
    over : str, optional
        The name of another number: the line shows the ratio of the two means.
    at_least, at_most : float, optional
        The promise.
    """

    what: str
    value: str
    over: str | None = None
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """Something that happens every day, met once per seed.

    Parameters
    ----------
    name : str
        What ``--only`` calls it.
    title : str
    meet : callable from a seed to named numbers
        A module-level function, so that worker processes find it.
    quantities : tuple of Quantity
    """

    name: str
    title: str
    meet: Callable[[int], dict[str, float]]
    quantities: tuple[Quantity, ...]


def _unlike() -> Iterator[Quantity]:
    for kind, n in product(policies.UNLIKE_KINDS, policies.UNLIKE_TASKS):
        where, key = f"{kind}, {n} tasks", f"{kind} {n}"
        yield Quantity(f"{where}: noise sd of the other arms / truth", f"{key} noise", at_least=0.9, at_most=1.1)
        yield Quantity(f"{where}: their variance / truth", f"{key} variance", at_least=0.6, at_most=1.4)
        yield Quantity(f"{where}: share of arms within both", f"{key} within")


def _clicks() -> Iterator[Quantity]:
    for n_arms, rate, rows in fleets.CLICK_CELLS:
        where, key = f"{n_arms} arms, {rate:.2%}, {rows:,} rows", fleets.click_key(n_arms, rate, rows)
        over = f"{key} observed"
        yield Quantity(f"{where}: believed / observed", f"{key} believed", over, at_least=1 / 1.5, at_most=1.5)
        yield Quantity(f"{where}: 90 % intervals that hold the truth", f"{key} held", at_least=0.85, at_most=0.97)


def _offsets() -> Iterator[Quantity]:
    for offset in fleets.OFFSETS:
        where = f"rewards around {offset:g}"
        yield Quantity(f"{where}: new arm from the others, in their sd", f"{offset:g} distance", at_most=1.0)
        yield Quantity(f"{where}: sd of a new arm / sd between arms", f"{offset:g} sd")


def _equal() -> Iterator[Quantity]:
    for kind, n in product(fleets.EQUAL_KINDS, fleets.EQUAL_ROWS):
        yield Quantity(f"{kind}, {n} equal: seeds with a probability above 1 %", f"{kind} {n} above", at_least=0.95)
        yield Quantity(f"{kind}, {n} equal: probability", f"{kind} {n} probability")


def _digging() -> Iterator[Quantity]:
    for worth in fleets.DIG_WORTH:
        words = f"worth {worth:g}: seeds with less than a tenth of what could be earned"
        yield Quantity(words, f"{worth:g} given up", at_most=0.1)
        yield Quantity(f"worth {worth:g}: share of what could be earned", f"{worth:g} earned")


def _cannot_know() -> Iterator[Quantity]:
    for kind in fleets.UNKNOWABLE:
        yield Quantity(f"{kind}: 90 % intervals that hold the truth", f"{kind} held")
        yield Quantity(f"{kind}: width of the interval / truth", f"{kind} width")


TASK_RATES = [
    Quantity(f"rate {rate:.0%}, {own} rows of its own", f"{rate:g} {own}", at_least=0.86, at_most=0.94)
    for rate, own in product(clicks.RATES, clicks.OWN_ROWS)
]
FEW_ROWS = [
    Quantity(f"d={d}, {rows} rows per arm and task, {own} of its own", f"{d} {rows} {own}", at_least=0.85, at_most=0.95)
    for (d, rows), own in product(policies.FEW_ROWS, policies.OWN_ROWS)
]
LATE_ZEROS = [
    Quantity("belief in the new offer, from day 6 on", "belief", at_most=0.04),
    Quantity("its share of the traffic, from day 6 on", "share", at_most=0.25),
    Quantity("belief on the worst of these days", "worst belief"),
    Quantity("share on the worst of these days", "worst share"),
]
# fmt: off
TABLE: tuple[tuple[str, str, Callable[[int], dict[str, float]], Iterable[Quantity]], ...] = (
    ("constant-arm", "One arm always pays 0, or has noise 0.01", policies.meet_unlike_arm, _unlike()),
    ("rare-clicks", "Rare clicks", fleets.meet_rare_clicks, _clicks()),
    ("rare-clicks-binary", "Rare clicks, learned as clicks", clicks.meet_rare_clicks, _clicks()),
    ("task-rates", "Clicks: 90 % intervals of a task's click rates that hold the truth", clicks.meet_click_rates,
     TASK_RATES),
    ("offsets", "Rewards far from zero", fleets.meet_offsets, _offsets()),
    ("few-rows", "Few rows: 90 % intervals of a new task's expected rewards that hold the truth",
     policies.meet_few_rows, FEW_ROWS),
    ("late-zeros", "No purchase within 14 days is 0; the new offer buys at 2 %, the old one at 4 %",
     fleets.meet_late_zeros, LATE_ZEROS),
    ("equal-rewards", "One arm's rewards were all the same so far", fleets.meet_equal_rewards, _equal()),
    ("digging", "To do nothing pays 0, to dig costs 1 and seldom finds something", fleets.meet_digging, _digging()),
    ("cannot-know", "What the data cannot tell", fleets.meet_cannot_know, _cannot_know()),
)
# fmt: on
SITUATIONS = {name: Situation(name, title, meet, tuple(lines)) for name, title, meet, lines in TABLE}
"""Every situation by its name, in the order of the table."""


def chosen_situations(only: Sequence[str] | None = None) -> list[Situation]:
    """Return all situations, or those asked for, in the order of the table."""
    for name in only or ():
        if name not in SITUATIONS:
            close = difflib.get_close_matches(name, SITUATIONS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise InvalidValue(f"no situation {name!r}{hint} The situations are {', '.join(SITUATIONS)}")
    return [situation for name, situation in SITUATIONS.items() if not only or name in only]
