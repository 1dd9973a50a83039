"""Check whether rewards that are called numbers are clicks, counts or amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.families.wrong_family import Groups, Kinds, groups_of, largest_groups, wrong_family
from posse.logs.checks.view import View

if TYPE_CHECKING:
    import polars as pl


def check_family(view: View) -> None:
    """Find numbers that another family of rewards fits better."""
    if view.log.rewards != "number":
        return
    known = (view.frame["reward"].is_not_null() & view.frame["reward"].is_finite()).fill_null(False)
    reward = view.frame["reward"].filter(known).to_numpy().astype(np.float64)
    if not reward.size:
        return
    kinds = Kinds(
        rewards=float(reward.size),
        zeros=float((reward == 0).sum()),
        fractions=float((reward != np.floor(reward)).sum()),
        negatives=float((reward < 0).sum()),
        total=float(reward.sum()),
        squares=float(reward @ reward),
        groups=_groups(view, known, reward),
    )
    found = wrong_family(kinds)
    if found is not None:
        view.add("reward-family", "warning", f"{found.seen}, but they are taken for numbers", known,
                 f'pass rewards="{found.family}", which {found.change}')  # fmt: skip


def _groups(view: View, known: pl.Series, reward: np.ndarray) -> Groups:
    """Return rewards by task, arm and features that are no numbers, around a regression on those that are."""
    import polars as pl

    features = [name for name in view.features if name in view.log.features]
    contexts = view.log.contexts.select(features).filter(known) if features else pl.DataFrame()
    numbers = [name for name, kind in contexts.schema.items() if kind.is_numeric() or kind == pl.Boolean()]
    other = [name for name in contexts.columns if name not in numbers]
    X = np.ones((reward.size, 1))
    if numbers:
        columns = contexts.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
        X = np.column_stack([X, np.where(np.isfinite(columns), columns, 0.0)])
    d = X.shape[1]
    labels = view.frame.filter(known).select("task", "arm")
    if other:
        labels = labels.with_columns(contexts.select(pl.struct(other).hash().alias("other"))["other"])
    places = labels.with_row_index("row").group_by(labels.columns, maintain_order=True).agg("row")["row"]
    sizes = places.list.len().to_numpy().astype(np.float64)
    chosen = largest_groups(sizes, d)
    upper, moment, squares = np.triu_indices(d), np.zeros((chosen.size, d)), np.zeros(chosen.size)
    gram = np.zeros((chosen.size, upper[0].size))
    for place, group in enumerate(chosen.tolist()):
        rows = places[group].to_numpy()
        gram[place], moment[place] = (X[rows].T @ X[rows])[upper], X[rows].T @ reward[rows]
        squares[place] = reward[rows] @ reward[rows]
    return groups_of(gram, moment, squares, sizes[chosen], 0)
