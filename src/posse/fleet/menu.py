"""The arms of one request, with what is known about each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue
from posse.features.quantities import Numeric
from posse.fleet.names import Label, Labels
from posse.fleet.tables import required
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl

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
        self.arms, self.encoded, self.spec = arms, encoded, spec
        self._rows = rows
        self._logged: dict[str, list[Any]] | None = None  # read when it is first asked for

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        return f"<Menu of {len(self):,} arms>"

    @property
    def columns(self) -> Array:
        """The encoded columns but for the intercept, shape (n_arms, n_columns)."""
        return self.encoded[:, int(self.spec.intercept) :]

    def all_raw(self) -> list[list[Any]]:
        """Return the raw features of all arms, in the order of their declaration."""
        return self.spec.raw_rows(self._rows)

    def _columns(self) -> dict[str, list[Any]] | None:
        """Return the raw features if they are columns of plain numbers, which encoding has checked; else None."""
        import polars as pl

        rows, features = self._rows, self.spec.features
        if not isinstance(rows, pl.DataFrame) or not all(isinstance(feature, Numeric) for feature in features):
            return None
        columns = [rows[feature.name] for feature in features]
        if not all(column.dtype in (pl.Int64, pl.Float64) for column in columns):
            return None
        return {column.name: _numbers(column) for column in columns}

    def logged(self, without: Collection[int] = ()) -> dict[str, list[Any]]:
        """Return the raw features by name, a list each with a value per arm, as a log has them.

        Parameters
        ----------
        without : collection of int
            Places of arms that are left out: a ranking has given them away.
        """
        if self._logged is None:
            found = self._columns()
            if found is None:
                columns = zip(*self.all_raw(), strict=True)
                found = dict(zip(self.spec.names, map(list, columns), strict=True))
            self._logged = found
        if not without:
            return self._logged
        kept = [place for place in range(len(self)) if place not in without]
        return {name: [values[place] for place in kept] for name, values in self._logged.items()}


def _numbers(values: pl.Series) -> list[Any]:
    return (values.fill_nan(None) if values.dtype.is_float() else values).to_list()


def read_menu(values: Any, spec: FeatureSpec, labels: Labels, what: str = "arm") -> Menu:
    """Return the arms of a table with a column ``arm`` and their features, or of a mapping from arms to features.

    With another ``what`` the same of tasks. A scaling that has not been learned yet is learned from these.

    Raises
    ------
    InvalidValue
        If there is no arm, or one twice.
    """
    if isinstance(values, Menu):
        return values
    rows: Any
    if isinstance(values, Mapping) and what not in values:
        names, rows = labels.checked_all(values), list(values.values())
    else:
        rows = as_frame(values, name=f"{what}s")
        names = labels.checked_all(required(rows, what, what).to_list())
    if not names:
        raise InvalidValue(f"expected at least one {what} with features, got none")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(f"expected every {what} once, got {twice!r} twice")
    spec = spec if spec.ready else spec.learn_scaling(rows)
    return Menu(names, _encoded(names, rows, spec, what), rows, spec)


def _encoded(names: list[Label], rows: Any, spec: FeatureSpec, what: str) -> Array:
    """Return encoded features; an error about those of a mapping says whose they are."""
    try:
        return spec.encode_many(rows)
    except InvalidValue:
        for name, row in zip(names, rows if isinstance(rows, list) else (), strict=False):
            try:
                spec.encode(row)
            except InvalidValue as error:
                raise type(error)(f"{what} {name!r}: {error}") from None
        raise
