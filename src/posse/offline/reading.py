"""Turn the table of a log into arrays, and say for logs of rankings which place stands above which.

A place of a ranking is a decision among the arms that the places above have left. So the probability of the first
places of a ranking is a product, and the weight of a place is that of the target over that of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.logs.menus import menus_of
from posse.logs.schema import PRICES
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    import polars as pl

    from posse.features import FeatureSpec
    from posse.logs import Log
    from posse.logs.menus import Menus
    from posse.offline.data import LoggedBandit

ABSENT = -2  # a place above that the log does not have
CATALOGUE = "catalogue"  # what logs call the policy of a catalogue
NO_GROUP = "(none)"
BEFORE = ("task", "time", "policy", "version", "ranking_place")  # columns that the arm had no part in


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Places of rankings, those without a reward among them: what stands below depends on them, too.

    Parameters
    ----------
    whole : LoggedBandit
        All rows with a propensity; rewards of those without one are 0 and nobody looks at them.
    rows : int ndarray
        Which of them have a reward, and are the rows of the log that is evaluated.
    above : int ndarray
        Of all rows, the one with the place above; -1 at first places and where there is no ranking.
    """

    whole: LoggedBandit
    rows: IntArray
    above: IntArray

    def weights(self, ratios: Array) -> tuple[Array, Array]:
        """Return the weights of the rows with a reward, and those of the places above them (1 at the first).

        Parameters
        ----------
        ratios : ndarray
            Of all rows: how much more likely the target takes what the log shows, given the places above.
        """
        reach, weights, above = np.ones(ratios.size), ratios.copy(), self.above.copy()
        while (below := above >= 0).any():  # once per place
            reach[below] *= ratios[above[below]]
            weights[below] *= ratios[above[below]]
            above[below] = self.above[above[below]]
        return weights[self.rows], reach[self.rows]


def places_above(frame: pl.DataFrame) -> IntArray | None:
    """Return the row of the place above each row; -1 where there is none, ABSENT where the log lacks it.

    None if no ranking has a second place.
    """
    if not (frame["ranking_place"].fill_null(1) > 1).any():
        return None
    ids, places = frame["ranking_id"].to_list(), frame["ranking_place"].to_list()
    row_of: dict[tuple[Any, int], int] = {}
    for row, (ranking, place) in enumerate(zip(ids, places, strict=True)):
        if place is not None:
            row_of.setdefault((ranking, place), row)
    above = np.full(frame.height, -1, dtype=np.int64)
    for (ranking, place), row in row_of.items():
        if place > 1:
            above[row] = ABSENT if ranking is None else row_of.get((ranking, place - 1), ABSENT)
    # A second row of the same place belongs to nothing, and below a place that is missing all are.
    rows = [row for row, place in enumerate(places) if place is not None and row_of[ids[row], place] != row]
    above[rows] = ABSENT
    order = np.argsort([place or 0 for place in places], kind="stable")
    for row in order.tolist():
        if above[row] >= 0 and above[above[row]] == ABSENT:
            above[row] = ABSENT
    return above


def read_columns(log: Log, features: FeatureSpec | None, groups: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a :class:`~posse.offline.data.LoggedBandit`."""
    import polars as pl

    given = log.frame.with_columns(log.eligible.alias("eligible"))
    frame = given.with_columns(propensity=pl.col("propensity").fill_null(_stated(given)))
    no_reward = frame["reward"].is_null() | ~frame["reward"].fill_null(0.0).is_finite()
    no_propensity = frame["propensity"].is_null()
    frame = frame.with_columns(_counts=~no_reward).filter(~no_propensity)
    above = places_above(frame)
    alone = 0  # places below one that is not there
    if above is not None:
        alone = int((frame["_counts"].to_numpy() & (above == ABSENT)).sum())
        frame = frame.with_columns(pl.col("_counts") & pl.Series(above != ABSENT))
    if not frame["_counts"].any():
        raise InvalidValue(
            f"no row of the log has both a reward and a propensity: of {log.n_rows} rows {no_reward.sum()} lack the "
            f"reward, {no_propensity.sum()} the propensity and {alone} the place above them in their ranking"
        )
    if not frame["time"].null_count():
        frame = frame.sort("time", maintain_order=True)
    rewarded = frame.filter("_counts")
    lost = int((no_reward | no_propensity).sum()) + alone
    return {
        **_fields(rewarded, log, features, groups),
        "rankings": None if above is None else _rankings(frame, log, features),
        "rows_without_reward": int(no_reward.sum()),
        "rows_without_propensity": int(no_propensity.sum()),
        "rows_without_place_above": alone,
        "rows_left_out": lost,
    }


def _rankings(frame: pl.DataFrame, log: Log, features: FeatureSpec | None) -> Rankings:
    """Return all places, those without a reward among them."""
    import polars as pl

    from posse.offline.data import LoggedBandit

    above, rows = places_above(frame), np.flatnonzero(frame["_counts"].to_numpy())
    assert above is not None
    whole = LoggedBandit(
        **_fields(frame.with_columns(reward=pl.when("_counts").then("reward").otherwise(0.0)), log, features, ())
    )
    return Rankings(whole, rows, above)


def _fields(frame: pl.DataFrame, log: Log, features: FeatureSpec | None, groups: Sequence[str]) -> dict[str, Any]:
    """Return the fields that rows of a log make."""
    import polars as pl

    arms: list[Any] = log.arms
    tasks = frame["task"].unique(maintain_order=True)
    raw = frame["context"].struct.unnest()
    menus = menus_of(frame)
    if menus is None:
        _require_no_catalogue(frame)
        eligible, probabilities = _matrices(frame, frame["eligible"], arms)
        taken = _codes(frame["arm"], arms)
    else:
        # A catalogue has more arms than a table has columns: arms go by their place among those of their row.
        places = frame["eligible"].list.eval(pl.element().cum_count() - 1)
        arms = list(range(int(np.diff(menus.starts).max())))
        eligible, probabilities = _matrices(frame, places.cast(pl.List(pl.Int64())), arms)
        taken = _places_taken(frame, menus)
        if probabilities is None:
            raise InvalidValue(
                "expected the probabilities of all eligible arms in every row of a catalogue's log, got rows without; "
                "log them with every decision"
            )
    return {
        "tasks": _codes(frame["task"], tasks.to_list()),
        "arms": taken,
        "contexts": encoded(raw, features, frame.height),
        "rewards": frame["reward"].to_numpy(),
        "reward_family": log.rewards,
        "propensities": frame["propensity"].to_numpy(),
        "eligible": eligible,
        "probabilities": probabilities,
        "worth": None if menus is not None else _worth(frame, arms),
        "task_labels": tuple(tasks.to_list()),
        "arm_labels": tuple(arms),
        "groups": {name: _group(frame, raw, name) for name in groups},
        "raw": raw,
        "menus": menus,
    }


def encoded(raw: pl.DataFrame, features: FeatureSpec | None, n_rows: int) -> Array:
    """Return the contexts as a model sees them; without any feature an intercept."""
    from posse.features import FeatureSpec

    if not raw.width:
        return np.ones((n_rows, 1))
    spec = features if features is not None else FeatureSpec.from_table(raw, scale="standard")
    if not spec.ready:
        spec = spec.learn_scaling(raw)
    return spec.encode_many(raw)


def _stated(frame: pl.DataFrame) -> pl.Series:
    """Return what the probabilities say of the arm taken; null where they say nothing."""
    import polars as pl

    whole = frame["probabilities"].list.len() == frame["eligible"].list.len()
    pairs = (
        frame.select("arm", "eligible", "probabilities")
        .with_row_index("row")
        .filter(whole.fill_null(False))
        .explode("eligible", "probabilities")
        .filter(pl.col("arm") == pl.col("eligible"))
        .unique("row", keep="first")
    )
    rows = pl.DataFrame({"row": pl.arange(frame.height, eager=True, dtype=pl.get_index_type())})
    return rows.join(pairs, on="row", how="left", maintain_order="left")["probabilities"]


def _require_no_catalogue(frame: pl.DataFrame) -> None:
    """Refuse decisions of a catalogue without the features of its arms: nobody can say what others had done."""
    if (frame["policy"] == CATALOGUE).any():
        raise InvalidValue(
            "expected arm_features, the features of all eligible arms, in the log of a catalogue, got decisions of one "
            "without; log with this version of posse"
        )


def _places_taken(frame: pl.DataFrame, menus: Menus) -> IntArray:
    """Return the place of the arm taken among the eligible arms of its row."""
    result = np.empty(frame.height, dtype=np.int64)
    for row, arm in enumerate(frame["arm"].to_list()):
        arms = menus.arms(row)
        if arm not in arms:
            raise InvalidValue(f"row {row} took arm {arm!r}, which was not eligible there")
        result[row] = arms.index(arm)
    return result


def _matrices(frame: pl.DataFrame, offered: pl.Series, arms: Sequence[Any]) -> tuple[BoolArray, Array | None]:
    """Return eligible arms and their probabilities, (n_rows, n_arms); no probabilities unless every row has them."""
    sizes = offered.list.len().to_numpy()
    rows = np.repeat(np.arange(frame.height), sizes)
    columns = _codes(offered.filter(offered.list.len() > 0).explode(), list(arms))
    eligible = np.zeros((frame.height, len(arms)), dtype=np.bool_)
    eligible[rows, columns] = True
    given = frame["probabilities"]
    if given.null_count():
        return eligible, None
    if (given.list.len().to_numpy() != sizes).any():
        row = int(np.argmax(given.list.len().to_numpy() != sizes))
        raise InvalidValue(f"row {row} of the log has another number of probabilities than of eligible arms")
    probabilities = np.zeros(eligible.shape)
    probabilities[rows, columns] = given.filter(given.list.len() > 0).explode().to_numpy()
    return eligible, probabilities


def _worth(frame: pl.DataFrame, arms: Sequence[Any]) -> Array | None:
    """Return values and costs by row and arm, 0 where an arm was not eligible; None if the log has none."""
    there = [name for name in PRICES if name in frame.columns]
    if not there:
        return None
    sizes = frame["eligible"].list.len().to_numpy()
    rows = np.repeat(np.arange(frame.height), sizes)
    columns = _codes(frame["eligible"].filter(sizes > 0).explode(), list(arms))
    worth = np.stack([np.full((frame.height, len(arms)), float(name == "values")) for name in PRICES])
    for name in there:
        given = frame[name].list.len().fill_null(0).to_numpy()
        if (given != sizes).any():
            row = int(np.argmax(given != sizes))
            raise InvalidValue(
                f"expected {name} of the {sizes[row]} eligible arms in every row of the log, got {given[row]} in row "
                f"{row}; pass values=... for all rows, or evaluate the rows since there were prices"
            )
        worth[PRICES.index(name), rows, columns] = frame[name].filter(sizes > 0).explode().to_numpy()
    return worth


def _codes(values: pl.Series, known: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    import polars as pl

    numbers = pl.Series(range(len(known)), dtype=pl.Int64)
    return values.replace_strict(pl.Series(known, dtype=values.dtype), numbers, return_dtype=pl.Int64()).to_numpy()


def _group(frame: pl.DataFrame, raw: pl.DataFrame, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a column of the log, or a feature, as text."""
    import polars as pl

    if name in raw.columns:
        column = raw[name]
    elif name in BEFORE:
        column = frame[name]
    elif name in frame.columns:
        raise InvalidValue(f"rows can be grouped by what was known before the decision only, which {name!r} was not")
    else:
        choices = [*raw.columns, *BEFORE]
        raise InvalidValue(f"no column {name!r} to group by; there are {', '.join(map(repr, choices))}")
    return column.cast(pl.String()).fill_null(NO_GROUP).to_numpy().astype(object)
