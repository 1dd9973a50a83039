"""The arms of one request, with what is known about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue
from posse.fleet.labels import Label, Labels
from posse.fleet.rows import required
from posse.tables import as_frame

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.types import Array


class Menu:
    """Arms that may be chosen, and their features: a table that was read once and serves many decisions.

    Made by :meth:`posse.Catalogue.menu`.

    Attributes
    ----------
    arms : list of str or int
    encoded : ndarray of shape (n_arms, n_columns)
    """

    def __init__(self, arms: list[Label], encoded: Array, rows: Any, spec: FeatureSpec) -> None:
        self.arms, self.encoded = arms, encoded
        self._rows, self._spec = rows, spec

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        return f"<Menu of {len(self):,} arms>"

    def raw(self, place: int) -> dict[str, Any]:
        """Return the raw features of an arm by name, as a log has them."""
        names = self._spec.names
        row = self._rows[place] if isinstance(self._rows, list) else self._rows.row(place, named=True)
        row = {name: row[name] for name in names} if not isinstance(self._rows, list) else row
        return dict(zip(names, self._spec.raw(row), strict=True))


def read_menu(eligible: Any, spec: FeatureSpec, labels: Labels) -> Menu:
    """Return the arms of a table with a column ``arm`` and their features, or of a mapping from arms to features.

    Raises
    ------
    InvalidValue
        If there is no arm, or one twice.
    """
    if isinstance(eligible, Menu):
        return eligible
    rows: Any
    if isinstance(eligible, Mapping) and "arm" not in eligible:
        arms, rows = labels.checked_all(eligible), list(eligible.values())
        encoded = spec.encode_many(rows)
    else:
        rows = as_frame(eligible, name="eligible")
        arms = labels.checked_all(required(rows, "arm", "arm").to_list())
        encoded = spec.encode_many(rows)
    if not arms:
        raise InvalidValue("expected at least one eligible arm, got none")
    if len(set(arms)) < len(arms):
        twice = next(arm for arm in arms if arms.count(arm) > 1)
        raise InvalidValue(f"expected every eligible arm once, got {twice!r} twice")
    return Menu(arms, encoded, rows, spec)
