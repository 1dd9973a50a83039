"""Letter Recognition (Frey and Slate 1991): 20,000 printed letters, 16 features each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posse.errors import DamagedData
from posse.types import Array, IntArray
from posse_lab.datasets.folder import DataFile

FILE = DataFile(
    name="letter",
    title="Letter Recognition",
    path="letter/letter-recognition.data",
    home="https://archive.ics.uci.edu/dataset/59/letter+recognition",
    sha256="2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
)
CLASSES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
FEATURES = (
    "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar",
    "y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx",
)  # fmt: skip
LARGEST = 15


@dataclass(frozen=True, slots=True, eq=False)
class Letter:
    """Images of letters, described by whole numbers from 0 to 15.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 16)
    labels : ndarray of shape (n_rows,)
        Index into ``classes``.
    names : tuple of str
        Names of the features.
    classes : tuple of str
        The letters A to Z.
    file : Path
        The file that was read.
    sha256 : str
        Its checksum.
    """

    X: Array
    labels: IntArray
    names: tuple[str, ...]
    classes: tuple[str, ...]
    file: Path
    sha256: str


def load_letter(folder: str | Path | None = None, *, verify: bool = True) -> Letter:
    """Read ``letter/letter-recognition.data``.

    Parameters
    ----------
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    verify : bool
        Refuse a file whose checksum is not that of the published one.

    Returns
    -------
    Letter
        All rows in the order of the file; the usual split is the first 16,000 for training.
    """
    file = FILE.find(folder)
    content, sha256 = FILE.read(file, verify=verify)
    lines = content.decode("ascii", errors="replace").splitlines()
    if not lines:
        raise DamagedData(f"{file} is empty: expected rows of a letter and 16 numbers; get it again from {FILE.home}")
    X = np.empty((len(lines), len(FEATURES)))
    labels = np.empty(len(lines), dtype=np.int64)
    for row, line in enumerate(lines):
        cells = [cell.strip() for cell in line.split(",")]
        numbers = cells[1:]
        good = len(numbers) == len(FEATURES) and cells[0] in CLASSES
        if not good or not all(cell.isdecimal() and int(cell) <= LARGEST for cell in numbers):
            raise FILE.damaged_row(
                file, row + 1, f"a letter A to Z and 16 whole numbers from 0 to {LARGEST}", repr(line[:80])
            )
        labels[row] = CLASSES.index(cells[0])
        X[row] = [int(cell) for cell in numbers]
    return Letter(X, labels, FEATURES, CLASSES, file, sha256)
