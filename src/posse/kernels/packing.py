"""Symmetric matrices as their upper triangles, row after row."""

from __future__ import annotations

from posse.kernels.compiler import kernel
from posse.types import Array, IntArray


@kernel
def pack(matrices: Array, rows: IntArray, out: Array) -> None:
    """Write the upper triangle of ``matrices[rows[i]]`` to ``out[i]``."""
    d = matrices.shape[1]
    for position in range(rows.shape[0]):
        row = rows[position]
        place = 0
        for i in range(d):
            for j in range(i, d):
                out[position, place] = matrices[row, i, j]
                place += 1


@kernel
def unpack(packed: Array, out: Array) -> None:
    """Write to ``out[i]`` the symmetric matrix whose upper triangle is ``packed[i]``."""
    d = out.shape[1]
    for position in range(packed.shape[0]):
        place = 0
        for i in range(d):
            for j in range(i, d):
                out[position, i, j] = packed[position, place]
                out[position, j, i] = packed[position, place]
                place += 1
