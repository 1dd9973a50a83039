"""What rewards are worth: the value of one unit of reward of every arm, and what playing the arm costs.

Arms are then compared by value x expected reward - cost. The model of the rewards knows nothing of it, so another price
changes the next decision and nothing that was learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import nearest, number, shortened
from posse.core.size import LARGEST
from posse.errors import InvalidValue, NotFinite, ShapeError

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Active, Arms, Label
    from posse.types import Array, BoolArray


class Worth(NamedTuple):
    """Prices of all arms of a fleet, retired ones too; whoever changes one makes another of these.

    Parameters
    ----------
    table : ndarray of shape (2, n_arms)
        Value and cost by the number of the arm; a value of NaN is that of a retired arm which never had one.
    valued : bool
        Whether values were given. Else rewards are money already: every value is 1.
    """

    table: Array
    valued: bool

    def among(self, arms: Any) -> Array:
        """Return value and cost of some arms."""
        found: Array = self.table.take(arms, axis=1)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain values, of which :func:`worth_from_json` makes the same."""
        values, costs = self.table.tolist()
        return {"values": [None if math.isnan(one) else one for one in values] if self.valued else None, "costs": costs}


def worth_from_json(saved: Any, arms: Arms) -> Worth | None:
    """Return prices of which :meth:`Worth.to_json` made plain values, or raise if those are none of these arms."""
    if saved is None:
        return None
    values, costs = saved["values"], [_price(one, "a cost") for one in saved["costs"]]
    table = np.array([np.ones(len(costs)), costs])
    for given in (costs, [None] * len(arms) if values is None else values):
        if len(given) != len(arms):
            raise InvalidValue(f"expected prices of {len(arms)} arms, got {len(given)}")
    if values is not None:
        table[0] = [math.nan if one is None else _price(one, "a value") for one in values]
    if np.isnan(table[0, arms.active.arms]).any():
        raise InvalidValue("expected a value of every arm that may be chosen, got none of some")
    return Worth(table, values is not None)


# Prices of a fleet.


def changed_worth(worth: Worth | None, arms: Arms, values: Any, costs: Any) -> Worth | None:
    """Return prices with some of them changed, or raise; costs that nobody said are 0.

    Parameters
    ----------
    worth : Worth or None
        Those until now.
    arms : Arms
    values, costs : mapping from arms to numbers, or None
        Where there are no values yet, they name every arm that may be chosen.
    """
    if values is None and costs is None:
        return worth
    table = _plain(len(arms)) if worth is None else worth.table.copy()
    valued = worth is not None and worth.valued
    if values is not None:
        found = _by_arm(values, "values", arms)
        if not valued:
            _require_all(found, arms.active, arms)
            table[0] = math.nan
        table[0, list(found)] = list(found.values())
        valued = True
    found = {} if costs is None else _by_arm(costs, "costs", arms)
    table[1, list(found)] = list(found.values())
    return Worth(table, valued)


def with_arm(worth: Worth | None, arm: int, label: Label, value: Any, cost: Any) -> Worth | None:
    """Return prices when an arm joins or comes back, or raise.

    Parameters
    ----------
    worth : Worth or None
    arm : int
        Its number: that of a retired one, or the next.
    label : str or int
    value, cost : float or None
        None: 0 is the cost of a new one, and one that comes back has those that it had.
    """
    if value is not None and (worth is None or not worth.valued):
        raise InvalidValue(
            f"expected no value for arm {label!r}, as this fleet has no values, got {shortened(value)}; add it "
            "without, then give every arm one with set_values"
        )
    if worth is None and cost is None:
        return None
    n_arms = arm if worth is None else worth.table.shape[1]
    table = _plain(n_arms) if worth is None else worth.table
    valued = worth is not None and worth.valued
    if arm >= n_arms:
        table = np.column_stack([table, [math.nan if valued else 1.0, 0.0]])
    table = table.copy()
    if value is not None:
        table[0, arm] = _price(value, f"the value of arm {label!r}")
    if cost is not None:
        table[1, arm] = _price(cost, f"the cost of arm {label!r}")
    if math.isnan(table[0, arm]):
        raise InvalidValue(
            f"expected the value of arm {label!r}, as this fleet has values, got none; add it with value=..."
        )
    return Worth(np.ascontiguousarray(table), valued)


def joined_worth(mine: Fleet, other: Fleet, labels: Sequence[Label]) -> Worth | None:
    """Return prices of a fleet once further arms of another one joined, which bring theirs, or raise.

    Parameters
    ----------
    mine, other : Fleet
    labels : sequence of str or int
        The arms that only the other has, in the order in which they join.
    """
    here, there = mine.worth, other.worth
    if not labels or (here is None and there is None):
        return here
    if (here is not None and here.valued) != (there is not None and there.valued):
        having, lacking = ("this one", "the other") if here is not None and here.valued else ("the other", "this one")
        raise InvalidValue(
            f"expected values in both fleets, as arm {labels[0]!r} joins with its own, got values in {having} and none "
            f"in {lacking}; give {lacking} values with set_values first"
        )
    n_arms, numbers = len(mine.names.arms), [other.names.arms.numbers[label] for label in labels]
    table = _plain(n_arms) if here is None else here.table
    more = _plain(len(labels)) if there is None else there.among(numbers)
    return Worth(np.concatenate([table, more], axis=1), here is not None and here.valued)


# Prices of a decision.


class Prices(NamedTuple):
    """Prices that came with a request for decisions, and the table that their columns are in."""

    values: Any = None
    costs: Any = None
    contexts: Any = None


def worth_among(fleet: Fleet, active: Active, values: Any, costs: Any) -> Array | None:
    """Return value and cost of the arms of one decision, or None if rewards alone count; the lock must be held.

    Parameters
    ----------
    fleet : Fleet
    active : Active
        The eligible arms.
    values, costs : mapping from arms to numbers, or None
        In place of the fleet's, for the arms that they name.
    """
    worth = fleet.worth
    if values is None and costs is None:
        return None if worth is None else worth.among(active.arms)
    arms = fleet.names.arms
    table = _plain(len(arms)) if worth is None else worth.table.copy()
    if values is not None:
        found = _by_arm(values, "values", arms)
        if worth is None or not worth.valued:
            _require_all(found, active, arms)
        table[0, list(found)] = list(found.values())
    if costs is not None:
        found = _by_arm(costs, "costs", arms)
        table[1, list(found)] = list(found.values())
    return table.take(active.arms, axis=1)


def worth_of_rows(fleet: Fleet, mask: BoolArray, n: int, values: Any, costs: Any, contexts: Any) -> Array | None:
    """Return value and cost by arm of every row, or None if rewards alone count; the lock must be held.

    Parameters
    ----------
    fleet : Fleet
    mask : bool ndarray of shape (1, n_arms) or (n_rows, n_arms)
        The eligible arms.
    n : int
        How many rows.
    values, costs : mapping, or None
        From arms to a number, one number per row, or the name of a column of ``contexts``.
    contexts : table or other

    Returns
    -------
    ndarray of shape (2, 1, n_arms) or (2, n_rows, n_arms), or None
    """
    worth, arms = fleet.worth, fleet.names.arms
    if values is None and costs is None:
        return None if worth is None else worth.table[:, None].copy()
    table = _plain(len(arms)) if worth is None else worth.table
    result = np.repeat(table[:, None], n, axis=1)
    for place, (name, given) in enumerate((("values", values), ("costs", costs))):
        if given is None:
            continue
        found = _numbered(given, name, arms)
        if name == "values" and not (worth is not None and worth.valued):
            offered = np.flatnonzero(mask.any(axis=0))
            _require_numbers(found, offered.tolist(), arms)
        for arm, one in found.items():
            there = mask[:, arm] if len(mask) == n else np.repeat(mask[:, arm], n)
            result[place, :, arm] = _column(one, f"{name} of arm {arms.label(arm)!r}", n, there, contexts)
    return result


def money_of(worth: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of value x expected reward - cost, given those of expected rewards."""
    return worth[0] * mean - worth[1], worth[0] * sd


# What was given.


def _plain(n_arms: int) -> Array:
    """Return prices of arms of which nobody said any: rewards are money."""
    return np.array([np.ones(n_arms), np.zeros(n_arms)])


def _price(value: Any, name: str) -> float:
    result = number(value, name, at_least=0)
    if result > LARGEST:
        raise InvalidValue(f"expected {name} to be at most {LARGEST:g}, got {result:g}")
    return result


def _numbered(given: Any, name: str, arms: Arms) -> dict[int, Any]:
    """Return what was given by the number of the arm, or raise."""
    if not isinstance(given, Mapping):
        raise InvalidValue(
            f"expected {name} to be a mapping from arms to numbers, got {shortened(given)}; pass {name}={{arm: number}}"
        )
    return {arms.number(label): one for label, one in given.items()}


def _by_arm(given: Any, name: str, arms: Arms) -> dict[int, float]:
    """Return prices by the number of the arm, or raise."""
    what = "value" if name == "values" else "cost"
    found = _numbered(given, name, arms)
    return {arm: _price(one, f"the {what} of arm {arms.label(arm)!r}") for arm, one in found.items()}


def _require_all(found: Mapping[int, Any], active: Active, arms: Arms) -> None:
    _require_numbers(found, active.arms.tolist(), arms)


def _require_numbers(found: Mapping[int, Any], asked: Sequence[int], arms: Arms) -> None:
    """Raise unless every arm of these has a value."""
    missing = [arms.label(arm) for arm in asked if arm not in found]
    if missing:
        raise InvalidValue(
            f"expected a value of every arm, got none of {', '.join(map(repr, missing))}; add what a reward is worth "
            "there"
        )


def _column(given: Any, name: str, n: int, there: BoolArray, contexts: Any) -> Array:
    """Return one price per row, or raise; where the arm is not eligible, any will do."""
    if isinstance(given, str):
        import polars as pl

        from posse.tables import as_frame

        frame = as_frame(contexts, name="contexts")
        if given not in frame.columns:
            raise InvalidValue(
                f"expected {name} in a column of the contexts, got {given!r}; "
                f"{nearest(given, frame.columns, 'columns')}"
            )
        series = frame.get_column(given)
        if not series.dtype.is_numeric():
            raise InvalidValue(
                f"expected {name} to be numbers, got the column {given!r} of type {series.dtype}; cast it first"
            )
        given = series.cast(pl.Float64).to_numpy()
    elif not hasattr(given, "__len__") and not hasattr(given, "__array__"):
        return np.full(n, _price(given, name))
    try:
        prices = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"expected {name} to be numbers, got {shortened(given)}: {error}") from None
    if prices.ndim == 0:
        return np.full(n, _price(float(prices), name))
    if prices.shape != (n,):
        raise ShapeError(f"expected {name} to have one number per row, got shape {prices.shape} for {n} rows")
    wrong = ~((prices >= 0) & (prices <= LARGEST)) & there
    if wrong.any():
        row = int(np.argmax(wrong))
        words = f"expected {name} to be from 0 to {LARGEST:g}, got {prices[row]} in row {row}; put it right there"
        raise InvalidValue(words) if np.isfinite(prices[row]) else NotFinite(words)
    return np.where(there, prices, 0.0)
