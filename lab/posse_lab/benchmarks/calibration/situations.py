"""The situations of ``posse lab bench calibration``: how to meet one, what to measure in it and what was promised."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from posse.errors import InvalidValue
from posse_lab.benchmarks.calibration import clicks, fleets, policies


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


def _unlike() -> tuple[Quantity, ...]:
    lines = []
    for kind in policies.UNLIKE_KINDS:
        for n_tasks in policies.UNLIKE_TASKS:
            where, key = f"{kind}, {n_tasks} tasks", f"{kind} {n_tasks}"
            lines += [
                _ratio(f"{where}: noise sd of the other arms / truth", f"{key} noise", within=0.1),
                _ratio(f"{where}: their variance / truth", f"{key} variance", within=0.4),
                Quantity(what=f"{where}: share of arms within both", value=f"{key} within"),
            ]
    return tuple(lines)


def _ratio(what: str, value: str, *, within: float) -> Quantity:
    return Quantity(what=what, value=value, at_least=1.0 - within, at_most=1.0 + within)


def _clicks() -> tuple[Quantity, ...]:
    lines = []
    for n_arms, rate, rows in fleets.CLICK_CELLS:
        where, key = f"{n_arms} arms, {rate:.2%}, {rows:,} rows", fleets.click_key(n_arms, rate, rows)
        lines += [
            Quantity(
                what=f"{where}: believed / observed",
                value=f"{key} believed",
                over=f"{key} observed",
                at_least=1 / 1.5,
                at_most=1.5,
            ),
            Quantity(
                what=f"{where}: 90 % intervals that hold the truth", value=f"{key} held", at_least=0.85, at_most=0.97
            ),
        ]
    return tuple(lines)


def _offsets() -> tuple[Quantity, ...]:
    lines = []
    for offset in fleets.OFFSETS:
        where = f"rewards around {offset:g}"
        lines += [
            Quantity(what=f"{where}: new arm from the others, in their sd", value=f"{offset:g} distance", at_most=1.0),
            Quantity(what=f"{where}: sd of a new arm / sd between arms", value=f"{offset:g} sd"),
        ]
    return tuple(lines)


SITUATIONS: dict[str, Situation] = {
    situation.name: situation
    for situation in (
        Situation(
            name="constant-arm",
            title="One arm always pays 0, or has noise 0.01",
            meet=policies.meet_unlike_arm,
            quantities=_unlike(),
        ),
        Situation(name="rare-clicks", title="Rare clicks", meet=fleets.meet_rare_clicks, quantities=_clicks()),
        Situation(
            name="rare-clicks-binary",
            title="Rare clicks, learned as clicks",
            meet=clicks.meet_rare_clicks,
            quantities=_clicks(),
        ),
        Situation(
            name="task-rates",
            title="Clicks: 90 % intervals of a task's click rates that hold the truth",
            meet=clicks.meet_click_rates,
            quantities=tuple(
                Quantity(
                    what=f"rate {rate:.0%}, {own} rows of its own",
                    value=f"{rate:g} {own}",
                    at_least=0.86,
                    at_most=0.94,
                )
                for rate in clicks.RATES
                for own in clicks.OWN_ROWS
            ),
        ),
        Situation(name="offsets", title="Rewards far from zero", meet=fleets.meet_offsets, quantities=_offsets()),
        Situation(
            name="few-rows",
            title="Few rows: 90 % intervals of a new task's expected rewards that hold the truth",
            meet=policies.meet_few_rows,
            quantities=tuple(
                Quantity(
                    what=f"d={d}, {rows} rows per arm and task, {own} of its own",
                    value=f"{d} {rows} {own}",
                    at_least=0.85,
                    at_most=0.95,
                )
                for d, rows in policies.FEW_ROWS
                for own in policies.OWN_ROWS
            ),
        ),
        Situation(
            name="late-zeros",
            title="No purchase within 14 days is 0; the new offer buys at 2 %, the old one at 4 %",
            meet=fleets.meet_late_zeros,
            quantities=(
                Quantity(what="belief in the new offer, from day 6 on", value="belief", at_most=0.04),
                Quantity(what="its share of the traffic, from day 6 on", value="share", at_most=0.25),
                Quantity(what="belief on the worst of these days", value="worst belief"),
                Quantity(what="share on the worst of these days", value="worst share"),
            ),
        ),
        Situation(
            name="equal-rewards",
            title="One arm's rewards were all the same so far",
            meet=fleets.meet_equal_rewards,
            quantities=tuple(
                line
                for kind in fleets.EQUAL_KINDS
                for n in fleets.EQUAL_ROWS
                for line in (
                    Quantity(
                        what=f"{kind}, {n} equal: seeds with a probability above 1 %",
                        value=f"{kind} {n} above",
                        at_least=0.95,
                    ),
                    Quantity(what=f"{kind}, {n} equal: probability", value=f"{kind} {n} probability"),
                )
            ),
        ),
        Situation(
            name="digging",
            title="To do nothing pays 0, to dig costs 1 and seldom finds something",
            meet=fleets.meet_digging,
            quantities=tuple(
                line
                for worth in fleets.DIG_WORTH
                for line in (
                    Quantity(
                        what=f"worth {worth:g}: seeds with less than a tenth of what could be earned",
                        value=f"{worth:g} given up",
                        at_most=0.1,
                    ),
                    Quantity(what=f"worth {worth:g}: share of what could be earned", value=f"{worth:g} earned"),
                )
            ),
        ),
        Situation(
            name="cannot-know",
            title="What the data cannot tell",
            meet=fleets.meet_cannot_know,
            quantities=tuple(
                line
                for kind in fleets.UNKNOWABLE
                for line in (
                    Quantity(what=f"{kind}: 90 % intervals that hold the truth", value=f"{kind} held"),
                    Quantity(what=f"{kind}: width of the interval / truth", value=f"{kind} width"),
                )
            ),
        ),
    )
}
"""Every situation by its name, in the order of the table."""


def chosen_situations(only: Sequence[str] | None = None) -> list[Situation]:
    """Return all situations, or those asked for, in the order of the table."""
    for name in only or ():
        if name not in SITUATIONS:
            close = difflib.get_close_matches(name, SITUATIONS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise InvalidValue(f"no situation {name!r}{hint} The situations are {', '.join(SITUATIONS)}")
    return [situation for name, situation in SITUATIONS.items() if not only or name in only]
