"""The vocabulary of shapes: what the arrays of this package hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Labels and counts."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]

ArrayLike: TypeAlias = npt.ArrayLike

Settings: TypeAlias = dict[str, Any]
"""Plain values by name, as they stand in a result file."""
