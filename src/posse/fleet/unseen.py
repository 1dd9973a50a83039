"""Categories that nobody declared: how many rewards had one, told from sums alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from posse.features.categories import OneHot

if TYPE_CHECKING:
    from posse.features import FeatureSpec
    from posse.types import Array


class Unseen(NamedTuple):
    """A feature with categories that were not declared.

    Parameters
    ----------
    feature : str
    rows : float
        Rewards whose context had one; those without a value are among them if ``missing="zeros"``.
    of : float
        Rewards in all.
    or_missing : bool
        Whether rows without a value count among them.
    """

    feature: str
    rows: float
    of: float
    or_missing: bool

    def __str__(self) -> str:
        what = "a category that is not declared" + (", or none," if self.or_missing else "")
        return (
            f"feature {self.feature!r} had {what} in {self.rows:,.0f} of {self.of:,.0f} rewards "
            f"({self.rows / self.of:.1%}): "
            "all such categories are treated alike; declare those that matter in a new fleet"
        )


def unseen_categories(spec: FeatureSpec, products: Array) -> list[Unseen]:
    """Return the one-hot features that met categories which they do not know.

    Parameters
    ----------
    spec : FeatureSpec
        Without an intercept nothing can be told, since the number of rows is not among the sums.
    products : ndarray of shape (n_columns + 1, n_columns + 1)
        Sums of products of the columns and, last, the rewards; of which only the first row is looked at.
    """
    if not spec.intercept:
        return []
    sums, found = products[0], []
    for feature, first, last in spec._layout:
        if not isinstance(feature, OneHot) or feature.unknown == "error":
            continue
        if feature.unknown == "other":
            rows = float(sums[first + len(feature.categories)])
        else:
            rows = float(sums[0] - sums[first:last].sum())  # rows in which none of its columns is 1
        if rows > 0.5:  # sums of ones are exact, sums that were discounted are not
            zeros = feature.unknown == "zeros" and feature.missing == "zeros"
            found.append(Unseen(feature.name, rows, float(sums[0]), zeros))
    return found
