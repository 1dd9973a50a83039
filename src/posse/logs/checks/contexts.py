"""Checks of features: gaps, constants, changes of type, and features that know the reward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from posse.logs.checks.view import View, share
from posse.logs.findings import Finding

if TYPE_CHECKING:
    import polars as pl

MANY_MISSING = 0.5
FEWEST = 30  # rows with a reward for a correlation
LEAK = 0.999  # absolute correlation with the reward
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def check_contexts(view: View) -> Iterator[Finding]:
    """Look at every feature."""
    import polars as pl

    contexts = view.log.contexts
    absent = [name for name in view.features if name not in contexts.columns]
    if absent:
        yield view.finding(
            "feature-absent",
            "error",
            f"no row has {', '.join(map(repr, absent[:5]))}{', ...' if len(absent) > 5 else ''}",
            pl.repeat(True, view.frame.height, eager=True),
            f"the features of the log are {', '.join(map(repr, contexts.columns)) or 'none'}",
        )
    if not view.features:
        yield view.finding(
            "no-features",
            "note",
            "there are no features: policies can tell tasks apart, but not contexts",
            pl.repeat(True, view.frame.height, eager=True),
            "nothing, if that is meant",
        )
    for name in view.features:
        if name in contexts.columns:
            yield from _feature(view, name, contexts[name])


def _feature(view: View, name: str, values: pl.Series) -> Iterator[Finding]:
    import polars as pl

    missing = values.is_null()
    if missing.all():
        yield view.finding(
            "feature-missing",
            "warning",
            f"feature {name!r} is never known",
            missing,
            "leave it out",
        )
        return
    if missing.any():
        many = missing.sum() > MANY_MISSING * missing.len()
        yield view.finding(
            "feature-missing",
            "warning" if many else "note",
            f"feature {name!r} is missing ({share(int(missing.sum()), missing.len())})",
            missing,
            "decide what a missing value means before a model is fitted",
        )
    if values.dtype == pl.Float64():
        wrong = (~values.is_finite()).fill_null(False)
        if wrong.any():
            yield view.finding(
                "feature-not-finite",
                "error",
                f"feature {name!r} is NaN or infinite",
                wrong,
                "write null where it is not known (in Polars: fill_nan(None))",
            )
            return
    if values.len() > 1 and not missing.any() and values.n_unique() == 1:
        yield view.finding(
            "feature-constant",
            "note",
            f"feature {name!r} is {values[0]!r} in every row",
            values.is_not_null(),
            "leave it out; an intercept does the same",
        )
    if values.dtype == pl.String():
        yield from _mixed(view, name, values)
    yield from _leak(view, name, values)


def _mixed(view: View, name: str, values: pl.Series) -> Iterator[Finding]:
    """Find text that is a number in some rows and none in others."""
    numeric = values.str.contains(NUMBER).fill_null(False)
    count, known = int(numeric.sum()), values.len() - values.null_count()
    if 0 < count < known:
        yield view.finding(
            "feature-type-changes",
            "warning",
            f"feature {name!r} is a number written as text here and other text in {known - count} rows",
            numeric,
            "make it one kind; text stands for a category, so '1' and '1.0' are two",
        )


def _leak(view: View, name: str, values: pl.Series) -> Iterator[Finding]:
    """Find features that say the reward, as something that was only known after it would."""
    import polars as pl

    table = pl.DataFrame({"x": values, "y": view.frame["reward"]}).drop_nulls().filter(pl.col("y").is_finite())
    if table.height < FEWEST or table["y"].n_unique() < 2 or table["x"].n_unique() < 2:
        return
    if values.dtype == pl.String():
        if table["x"].n_unique() > table.height / 10:
            return  # names of rows rather than categories
        means = table.select(pl.col("y").mean().over("x"))["y"].to_numpy()
        alike = float(means.std() / table["y"].to_numpy().std())
    else:
        found = table.select(pl.corr(pl.col("x").cast(pl.Float64), pl.col("y"))).item()
        alike = abs(found) if found is not None else 0.0
    if alike >= LEAK:
        yield view.finding(
            "feature-leak",
            "warning",
            f"feature {name!r} says the reward (correlation {alike:.4f}), as if it was written down after it",
            values.is_not_null(),
            "leave it out unless it was known when the decision was made",
        )
