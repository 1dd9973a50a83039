"""The format of a fleet's file: its versions, and a reader that believes nothing it has not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.container import Container
from posse.errors import DamagedFile, NotFinite
from posse.fleet.ledger import MOST
from posse.kernels.evidence import WORKING_ROOM

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import IntArray

KIND, VERSION, SUMS_ONLY, WITH_SITES, WITH_KNOWN, FADING, FADING_SUMS, KNOWN_SUMS = "fleet", 2, 3, 4, 5, 6, 7, 8
FADING_KNOWN, FADING_KNOWN_SUMS, FADING_SITES = 9, 10, 11
KNOWN_SITES = 12
"""The second version is the first without beliefs about pairs: they are computed when they are first asked for.

The third is the first for clicks and counts, see :mod:`posse.fleet.site_file`, and the fourth the first with features
of tasks and arms, see :mod:`posse.fleet.known_file`. The next two are the first two of a fleet with drift, see
:mod:`posse.fleet.fading_file`, then comes the second with features, and two are the first two with both. The last two
are those of clicks and counts with drift, and with features.
"""
WITHOUT_BELIEFS = (SUMS_ONLY, FADING_SUMS, KNOWN_SUMS, FADING_KNOWN_SUMS)
WITH_DRIFT = (FADING, FADING_SUMS, FADING_KNOWN, FADING_KNOWN_SUMS, FADING_SITES)
WITH_FEATURES = (WITH_KNOWN, KNOWN_SUMS, FADING_KNOWN, FADING_KNOWN_SUMS, KNOWN_SITES)
OF_SITES = (WITH_SITES, FADING_SITES, KNOWN_SITES)
VERSIONS = tuple(sorted({VERSION, *OF_SITES, *WITHOUT_BELIEFS, *WITH_DRIFT, *WITH_FEATURES}))

MOST_TASKS = 2**40

PER_ARM = (
    "covariance", "noise_variance", "shared_precision", "shared_location", "shared_covariance", "shared_moment",
    "shared_mean",
)  # fmt: skip
REBUILT = (  # what may hold anything: it is computed again if it does not follow from the rest
    "evidence_inverse", "evidence_last_move", "evidence_second_moment", "evidence_summaries", "arm_shared_covariance",
    "arm_shared_mean", "arm_shared_moment", "pair_local_covariance", "pair_local_mean",
)  # fmt: skip
BUFFERS = (
    "estimates",
    "order",
    "losses",
    "evidence",
    "robust",
    "distance",
    *WORKING_ROOM,
)  # not worth a place

Arrays = dict[str, Any]


def require_finite(name: str, array: npt.NDArray[Any]) -> None:
    """Raise if an array of a file is not a number somewhere."""
    if array.dtype == np.float64 and name not in REBUILT and not np.isfinite(array).all():
        raise NotFinite(
            f"this fleet cannot be saved: its {name} is not a number, since values of too different size were "
            "learned (1e20 beside 1, say); find such rows, forget their tasks and learn them again without"
        )


class Reader:
    """A container whose arrays must have the shapes that the header implies."""

    def __init__(self, box: Container, path: str) -> None:
        self.box = box
        self.header = box.header
        self.path = path

    def array(self, name: str, shape: tuple[int, ...], dtype: type = np.float64, rows: IntArray | None = None) -> Any:
        """Return an array of the right shape and type, finite, or raise."""
        self.require(name, shape, dtype)
        result = self.box.read(name) if rows is None else self.box.take(name, rows)
        if dtype is np.float64 and name not in REBUILT and not np.isfinite(result).all():
            raise self.damaged(f"{name} has values that are not finite")
        return result

    def require(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> None:
        """Raise unless there is an array of this shape and type."""
        if name not in self.box.names:
            raise self.damaged(f"it has no {name}")
        if self.box.shape(name) != shape or self.box.dtype(name) != dtype:
            raise self.damaged(
                f"{name} is {self.box.dtype(name)} of shape {self.box.shape(name)}, but {np.dtype(dtype)} of shape "
                f"{shape} is needed"
            )

    def within(self, name: str, values: IntArray, low: int, high: int) -> IntArray:
        """Return whole numbers that are all from ``low`` to ``high - 1``, or raise."""
        if values.size and not (values.min() >= low and values.max() < high):
            raise self.damaged(f"{name} has numbers that are not from {low} to {high - 1}")
        return values

    def whole(self, name: str, low: int = 0, high: int = MOST - 1, place: dict[str, Any] | None = None) -> int:
        """Return a whole number of the header."""
        value = (self.header if place is None else place)[name]
        if type(value) is not int or not low <= value <= high:
            raise self.damaged(f"{name} is {value!r}")
        return value

    def damaged(self, what: str) -> DamagedFile:
        """Return the error of a file that is not as posse would have written it."""
        return DamagedFile(f"{self.path} is damaged or was not written by posse: {what}; restore it from a backup")
