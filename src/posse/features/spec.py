"""The declared features of a context, as one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any

import numpy as np

from posse.errors import InvalidValue, ShapeError
from posse.features import declare
from posse.features.categories import Hashed, OneHot
from posse.features.columns import Column
from posse.features.parts import Feature, assemble
from posse.features.quantities import Numeric, numeric
from posse.features.quick import Quick
from posse.features.rows import is_numbers, is_rows, matrix, raw_columns, raw_values
from posse.features.values import MOST_COLUMNS, shown
from posse.types import Array


@dataclass(frozen=True, slots=True, repr=False, init=False)
class FeatureSpec:
    """The declared features of a context, and the numbers that the model sees of it.

    Parameters
    ----------
    features : list of declared features
        From :func:`numeric`, :func:`one_hot` and :func:`hashed`; a plain string is ``numeric(string)``.
    intercept : bool, default True
        Whether the first column is 1.

    Attributes
    ----------
    names : tuple of str
        The raw features, in order.
    columns : tuple of str
        The encoded columns, in order.
    n_features : int
        Number of encoded columns: what the model calls n_features.
    ready : bool
        False while a standard scaling has not been learned.

    Raises
    ------
    InvalidValue
        If a feature is not declared by one of these, or two features or columns have the same name.
    ShapeError
        If there is no column, or there are too many.

    Examples
    --------
    >>> from posse.features import one_hot
    >>> spec = FeatureSpec(["age", one_hot("color", ["red", "green"])])
    >>> spec.columns
    ('intercept', 'age', 'color=red', 'color=green')
    >>> spec.encode({"age": 30, "color": "green"})
    array([ 1., 30.,  0.,  1.])
    """

    features: tuple[Feature, ...]
    intercept: bool
    names: tuple[str, ...] = field(compare=False)
    columns: tuple[str, ...] = field(compare=False)
    n_features: int = field(compare=False)
    ready: bool = field(compare=False)
    layout: tuple[tuple[Feature, int, int], ...] = field(compare=False)
    _pick: Any = field(compare=False)
    _quick: Quick = field(compare=False)

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, features: Iterable[str | Feature], *, intercept: bool = True) -> None:
        given: Any = features
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            hint = f"; pass [{shown(given)}]" if isinstance(given, str) else ""
            raise InvalidValue(f"expected features to be a list of declared features, got {shown(given)}{hint}")
        if not isinstance(intercept, bool):
            raise InvalidValue(f"expected intercept to be True or False, got {shown(intercept)}")
        declared = tuple(map(_feature, given))
        n_features = intercept + sum(feature.width for feature in declared)
        if not 0 < n_features <= MOST_COLUMNS:
            raise ShapeError(
                f"features must have 1 to {MOST_COLUMNS:,} encoded columns, the intercept among them, but they have "
                f"{n_features:,}"
            )
        names = tuple(feature.name for feature in declared)
        columns = [name for feature in declared for name in feature.columns]
        columns = ["intercept", *columns] if intercept else columns
        for kind, labels in (("features", names), ("encoded columns", columns)):
            if len(set(labels)) < len(labels):
                twice = next(label for label, count in Counter(labels).items() if count > 1)
                raise InvalidValue(f"two {kind} are called {shown(twice)}; rename one")
        ends = list(accumulate((feature.width for feature in declared), initial=int(intercept)))
        settings = {
            "features": declared,
            "intercept": intercept,
            "names": names,
            "columns": tuple(columns),
            "n_features": n_features,
            "ready": all(feature.ready for feature in declared),
            "layout": tuple(zip(declared, ends, ends[1:], strict=False)),
            "_pick": itemgetter(*names) if len(names) > 1 else lambda context: [context[name] for name in names],
            "_quick": Quick(declared, intercept=intercept),
        }
        for key, value in settings.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return f"FeatureSpec([{', '.join(map(repr, self.features))}], intercept={self.intercept})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.features, self.intercept)  # what is derived is derived again

    def encode(self, context: Any, row: int | None = None) -> Array:
        """Return one context as the model sees it.

        Parameters
        ----------
        context : mapping, row or sequence
            By feature name, where an absent one is missing and one that is not declared is an error; a row of a table
            (named tuple, dataclass, pandas series), whose other fields are ignored; or raw values in the order of
            ``names``.
        row : int, default None
            Which of many it is, for errors to say.

        Returns
        -------
        ndarray of shape (n_features,)

        Raises
        ------
        InvalidValue
            If a value is missing and the feature does not say what that means, is not of its kind, or a scaling has not
            been learned.
        ShapeError
            If a sequence has more or fewer values than there are features.
        NotFinite
            If a number is infinite or too large to square.
        """
        if not self.ready:
            self._refuse()
        n_names = len(self.names)
        values: Sequence[Any] | None = None
        plain = False
        if type(context) is dict:
            # As many keys as names, and all names among them: then there are no others.
            if len(context) == n_names:
                try:
                    values = self._pick(context)
                except KeyError:
                    values = None
        elif type(context) is np.ndarray:
            if context.shape == (n_names,):
                values = context.tolist()
                plain = context.dtype.type is np.float64
        elif (type(context) is list or type(context) is tuple) and len(context) == n_names:
            values = context
        if values is None:
            values = raw_values(context, self.names, row)
        result = self._quick.encode(values, plain)
        if result is not None:
            return result
        encoded: Array = self._assembled([Column([value], [row]) for value in values], 1)[0].copy()
        return encoded

    def encode_many(self, contexts: Any) -> Array:
        """Return many contexts as the model sees them.

        Each row is what ``encode`` makes of it, bit for bit.

        Parameters
        ----------
        contexts : array, table or list
            An array of raw values, shape (n_rows, len(names)); any table that :func:`posse.tables.as_frame` takes, of
            which other columns are ignored; or a list of contexts as ``encode`` takes them.

        Returns
        -------
        ndarray of shape (n_rows, n_features)

        Raises
        ------
        InvalidValue, ShapeError, NotFinite
            As in :meth:`encode`, for the first row that is refused; its number is in the message.
        """
        if not self.ready:
            self._refuse()
        if is_rows(contexts):
            result = np.empty((len(contexts), self.n_features))
            for row, context in enumerate(contexts):
                result[row] = self.encode(context, row)
            return result
        array = matrix(contexts, self.names)
        if array is not None and is_numbers(array):
            encoded = self._quick.encode_matrix(array)
            if encoded is not None:
                return encoded
        n_rows, columns = raw_columns(contexts if array is None else array, self.names)
        return self._assembled(columns, n_rows)

    def _assembled(self, columns: Sequence[Column], n_rows: int) -> Array:
        parts = [
            (first, feature.part(column)) for (feature, first, _), column in zip(self.layout, columns, strict=True)
        ]
        return assemble(parts, n_rows, self.n_features, intercept=self.intercept)

    def raw(self, context: Any) -> list[bool | int | float | str | None]:
        """Return the raw values of a context as a log in JSON has them.

        ``encode`` makes the same of them as of the context.

        Parameters
        ----------
        context : mapping, row or sequence
            As :meth:`encode` takes it.

        Returns
        -------
        list
            In the order of ``names``, None where missing.

        Raises
        ------
        InvalidValue, ShapeError
            If it is no context of these features.
        """
        values = raw_values(context, self.names)
        return [feature.plain(value) for feature, value in zip(self.features, values, strict=True)]

    def raw_rows(self, contexts: Any) -> list[list[bool | int | float | str | None]]:
        """Return ``raw`` of many contexts.

        Parameters
        ----------
        contexts : array, table or list
            As :meth:`encode_many` takes them.

        Returns
        -------
        list of lists

        Raises
        ------
        InvalidValue, ShapeError
            If they are no contexts of these features.
        """
        n_rows, columns = raw_columns(contexts, self.names)
        cells = [
            [feature.plain(value) for value in column.values()]
            for feature, column in zip(self.features, columns, strict=True)
        ]
        return [[column[row] for column in cells] for row in range(n_rows)]

    def learn_scaling(self, table: Any) -> FeatureSpec:
        """Return the features with the centre and spread of a table for every standard scaling that has none yet.

        The centre is the mean of the feature's usable values and the spread their standard deviation; 1 where they do
        not vary. Missing values, infinite ones and those too large to encode are left out. It is learned once: scaling
        that changed later would change what the coefficients mean.

        Parameters
        ----------
        table : array, table or list
            As ``encode_many`` takes it, with all features; only those to be scaled are looked at.

        Returns
        -------
        FeatureSpec
            A new one; this one stays as it is.

        Raises
        ------
        InvalidValue
            If there is no scaling to learn, or a feature has no finite value.
        """
        if self.ready:
            raise InvalidValue(
                'there is no scaling to learn: it is learned once, and every feature with scale="standard" has its '
                "center and spread; declare new features to learn another"
            )
        _, columns = raw_columns(table, self.names)
        features = [
            feature.learned(column) if isinstance(feature, Numeric) and not feature.ready else feature
            for feature, column in zip(self.features, columns, strict=True)
        ]
        return FeatureSpec(features, intercept=self.intercept)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration, with what was learned, as plain JSON values.

        Returns
        -------
        dict
            :meth:`from_json` makes an equal FeatureSpec of it.
        """
        return declare.to_json(self.features, intercept=self.intercept)

    @classmethod
    def from_json(cls, value: Any) -> FeatureSpec:
        """Return the features that :meth:`to_json` wrote.

        Parameters
        ----------
        value : dict

        Returns
        -------
        FeatureSpec

        Raises
        ------
        InvalidValue
            If it is anything else.
        """
        features, intercept = declare.from_json(value)
        return cls(features, intercept=intercept)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        scale: str | None = None,
        max_categories: int = 50,
        buckets: int = 16,
    ) -> FeatureSpec:
        """Declare features by looking at a table.

        Numbers and bools are numeric; text and categoricals are one-hot over the categories seen, sorted, with all
        zeros for others. Where values are missing in the table, missing ones get a column of their own; elsewhere they
        are errors.

        Parameters
        ----------
        table : anything that :func:`posse.tables.as_frame` takes
        columns : list of str, default None
            Which columns are features. None: all, so name them where the table has others, such as the task or the
            reward.
        intercept : bool, default True
            Whether the first encoded column is 1.
        scale : None or "standard", default None
            Of every number; learn it with ``learn_scaling``.
        max_categories : int, default 50
            Text with more categories than this is hashed.
        buckets : int, default 16
            Columns of a hashed feature.

        Returns
        -------
        FeatureSpec

        Raises
        ------
        InvalidValue
            If a column is not there or of a kind that cannot be a feature, or a setting is out of its range.
        """
        features = declare.from_table(table, columns, scale=scale, max_categories=max_categories, buckets=buckets)
        return cls(features, intercept=intercept)

    def _refuse(self) -> None:
        waiting = [feature.name for feature in self.features if not feature.ready]
        raise InvalidValue(
            f"the scaling of {', '.join(map(shown, waiting))} has not been learned; call learn_scaling(table) and use "
            "what it returns"
        )


def _rebuilt(features: tuple[Feature, ...], intercept: bool) -> FeatureSpec:
    return FeatureSpec(features, intercept=intercept)


def _feature(value: Any) -> Feature:
    if isinstance(value, str):
        return numeric(value)
    if isinstance(value, Numeric | OneHot | Hashed):
        return value
    raise InvalidValue(
        f"expected a feature to be a name, or declared by numeric, one_hot or hashed, got {shown(value)}"
    )
