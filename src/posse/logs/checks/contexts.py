"""Checks of features, and of where the rows come from: tasks, policies, versions, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posse.logs.checks.view import View, share

if TYPE_CHECKING:
    import polars as pl

MANY_MISSING = 0.5
FEWEST = 30  # rows with a reward for a correlation
LEAK = 0.999  # absolute correlation with the reward
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
FEW_TASKS = 10


def check_contexts(view: View) -> None:
    """Look at every feature."""
    contexts = view.log.contexts
    absent = [name for name in view.features if name not in contexts.columns]
    if absent:
        view.add("feature-absent", "error",
                 f"no row has {', '.join(map(repr, absent[:5]))}{', ...' if len(absent) > 5 else ''}", view.everywhere,
                 f"the features of the log are {', '.join(map(repr, contexts.columns)) or 'none'}")  # fmt: skip
    if not view.features:
        view.add("no-features", "note", "there are no features: policies can tell tasks apart, but not contexts",
                 view.everywhere, "nothing, if that is meant")  # fmt: skip
    for name in view.features:
        if name in contexts.columns:
            _feature(view, name, contexts[name])


def _feature(view: View, name: str, values: pl.Series) -> None:
    import polars as pl

    missing = values.is_null()
    if missing.all():
        view.add("feature-missing", "warning", f"feature {name!r} is never known", missing, "leave it out")  # fmt: skip
        return
    view.add("feature-missing", "warning" if missing.sum() > MANY_MISSING * missing.len() else "note",
             f"feature {name!r} is missing ({share(int(missing.sum()), missing.len())})", missing,
             "decide what a missing value means before a model is fitted")  # fmt: skip
    if values.dtype == pl.Float64() and not values.is_finite().all():
        view.add("feature-not-finite", "error", f"feature {name!r} is NaN or infinite", ~values.is_finite(),
                 "write null where it is not known (in Polars: fill_nan(None))")  # fmt: skip
        return
    if values.len() > 1 and not missing.any() and values.n_unique() == 1:
        view.add("feature-constant", "note", f"feature {name!r} is {values[0]!r} in every row", values.is_not_null(),
                 "leave it out; an intercept does the same")  # fmt: skip
    if values.dtype == pl.String():
        _mixed(view, name, values)
    _leak(view, name, values)


def _mixed(view: View, name: str, values: pl.Series) -> None:
    """Find text that is a number in some rows and none in others."""
    numeric = values.str.contains(NUMBER).fill_null(False)
    count, known = int(numeric.sum()), values.len() - values.null_count()
    if 0 < count < known:
        view.add("feature-type-changes", "warning",
                 f"feature {name!r} is a number written as text here and other text in {known - count} rows", numeric,
                 "make it one kind; text stands for a category, so '1' and '1.0' are two")  # fmt: skip


def _leak(view: View, name: str, values: pl.Series) -> None:
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
        view.add("feature-leak", "warning",
                 f"feature {name!r} says the reward (correlation {alike:.4f}), as if it was written down after it",
                 values.is_not_null(), "leave it out unless it was known when the decision was made")  # fmt: skip


def check_tasks(view: View) -> None:
    """Find tasks that say little, and logs with few tasks."""
    import polars as pl

    counts = view.frame.group_by("task").agg(n=pl.len())
    alone = counts.filter(pl.col("n") == 1)["task"]
    if not alone.is_empty():
        view.add(
            "tasks-single-row",
            "note",
            f"tasks with one row: {alone.len()} of {counts.height}",
            view.frame["task"].is_in(alone.implode()),
            "nothing; numbers per task will say nothing about these",
        )
    if counts.height < FEW_TASKS:
        view.add("few-tasks", "note",
                 f"there {'is one task' if counts.height == 1 else f'are {counts.height} tasks'}; "
                 "intervals over so few tasks are rough", view.everywhere, "read intervals with care")  # fmt: skip


def check_sources(view: View) -> None:
    """Find logs that were written by several policies or versions."""
    for column, plural in (("policy", "policies"), ("version", "versions")):
        values = view.frame[column]
        kinds = values.unique().sort(nulls_last=True).to_list()
        if len(kinds) < 2:
            continue
        names = ", ".join("unknown" if kind is None else repr(kind) for kind in kinds[:5])
        first = values[0]
        view.add(f"several-{plural}", "note",
                 f"{len(kinds)} {plural} wrote this log: {names}{', ...' if len(kinds) > 5 else ''}",
                 ~values.eq_missing(first),
                 "what the log earned is a mixture of theirs; split it to compare one of them")  # fmt: skip


def check_columns(view: View) -> None:
    """Report columns and keys that no log has, and what an import left out."""
    if view.log.unknown:
        view.add(
            "unknown-columns",
            "note",
            f"not read, since no log has them: {', '.join(map(repr, view.log.unknown))}",
            view.everywhere,
            "correct the name if one is misspelt; read_table makes features of the columns of a table",
        )
    view.findings += view.log.notes
