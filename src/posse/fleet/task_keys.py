"""Numbers that tasks are spread by: over machines, and for a sample of them that does not depend on the machine.

They follow from the names alone, for ever: files that were sharded by them are read by later versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from posse.fleet.labels import Label

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.uint64]

N_BUCKETS = 4096
"""Parts that all tasks fall into; a machine has some of them."""


def keys_of(labels: Sequence[Label]) -> Keys:
    """Return a number from 0 to 2**64 - 1 for every name, evenly spread.

    Parameters
    ----------
    labels : sequence of str, or of int

    Examples
    --------
    >>> keys_of([1, 2])
    array([10451216379200822465, 10905525725756348110], dtype=uint64)
    """
    if labels and isinstance(labels[0], str):
        values = np.fromiter((zlib.crc32(str(label).encode()) for label in labels), np.uint64, len(labels))
    else:
        values = np.array(labels, dtype=np.int64).view(np.uint64)
    return _mixed(values)


def buckets_of(labels: Sequence[Label]) -> npt.NDArray[np.int64]:
    """Return the bucket of every name."""
    return (keys_of(labels) % np.uint64(N_BUCKETS)).astype(np.int64)


def _mixed(values: Keys) -> Keys:
    """Return numbers whose bits all depend on all bits of what came: the finalizer of SplitMix64 (Steele et al. 2014).

    Arithmetic is modulo 2**64.
    """
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
