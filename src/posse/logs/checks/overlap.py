"""Checks of what other policies the log can speak about."""

from __future__ import annotations

from collections.abc import Iterator

from posse.logs.checks.view import View, share
from posse.logs.findings import Finding

HEAVY = 0.1  # share of all weight that one row should not have
NOTABLE = 0.01  # share of rows


def check_overlap(view: View) -> Iterator[Finding]:
    """Find arms and rows of which the log cannot say what else would have happened."""
    import polars as pl

    rows, arms = view.measures.rows, view.measures.arms
    choice = rows["n_eligible"] > 1
    if not choice.any():
        yield view.finding(
            "no-choice",
            "error",
            "no decision had more than one eligible arm, so no policy could have done otherwise",
            ~choice,
            "log the arms that could have been taken",
        )
        return
    certain = (view.propensity == 1).fill_null(False) & choice
    if (certain | ~choice).all():
        yield view.finding(
            "deterministic-logging",
            "error",
            "every decision was made with probability 1, so nothing is known about what was not taken",
            certain,
            "explore: let every eligible arm keep some probability, as Posse's evaluation_budget does",
        )
        return
    closed = ((rows["n_zero"] > 0) & rows["aligned"]).fill_null(False) | certain
    if closed.any():
        often = closed.sum() > NOTABLE * closed.len()
        yield view.finding(
            "zero-probabilities",
            "warning" if often else "note",
            f"rows in which an eligible arm could not be taken ({share(int(closed.sum()), closed.len())})",
            closed,
            "policies that take it there cannot be evaluated; let every eligible arm keep some probability, as Posse's "
            "evaluation_budget does",
        )
    never = arms.filter((pl.col("stated") == pl.col("eligible")) & (pl.col("positive") == 0) & (pl.col("eligible") > 0))
    yield from _arms(view, never, "arm-no-overlap", "arms with probability 0 wherever they are eligible",
                     "leave these arms out, or log decisions that explore them")  # fmt: skip
    rare = arms.filter((pl.col("eligible") < 2) & ~pl.col("label").is_in(never["label"].implode()))
    yield from _arms(view, rare, "arm-rarely-eligible", "arms that are eligible in less than two rows",
                     "leave these arms out, or wait for more decisions")  # fmt: skip
    known = pl.concat([never["label"], rare["label"]])
    untaken = arms.filter((pl.col("taken") == 0) & ~pl.col("label").is_in(known.implode()))
    yield from _arms(view, untaken, "arm-never-taken", "arms that were never taken",
                     "nothing is known about these arms; leave them out, or wait for more decisions")  # fmt: skip


def _arms(view: View, arms: object, code: str, what: str, what_to_do: str) -> Iterator[Finding]:
    import polars as pl

    assert isinstance(arms, pl.DataFrame)
    if arms.is_empty():
        return
    labels = arms["label"]
    names = ", ".join(map(repr, labels[:5].to_list())) + (", ..." if labels.len() > 5 else "")
    concerned = view.log.eligible.list.set_intersection(labels.implode()).list.len() > 0
    concerned |= view.frame["arm"].is_in(labels.implode())
    yield view.finding(code, "warning", f"{what}: {names}", concerned, what_to_do)


def check_weight(view: View) -> Iterator[Finding]:
    """Find single rows that would decide an evaluation."""
    weight = (1 / view.propensity).set(~view.usable, None)
    used = weight.drop_nulls().to_numpy()
    if used.size >= 2 / HEAVY and (most := float(used.max())) > HEAVY * used.sum():
        yield view.finding(
            "tiny-propensities",
            "warning",
            f"one row (propensity {1 / most:.2g}) has {most / used.sum():.0%} of the weight of all {used.size}",
            (weight == most).fill_null(False),
            "use estimators that limit weights (SNIPS, SWITCH-DR), or let rare arms keep more probability",
        )
