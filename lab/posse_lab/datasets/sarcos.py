"""SARCOS inverse dynamics: torques of a robot arm's seven joints from positions, velocities and accelerations."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from posse.checks import one_of
from posse.errors import DamagedData
from posse.types import Array
from posse_lab.datasets.folder import DataFile

HOME = "http://www.gaussianprocess.org/gpml/data/"
FILES = {
    "test": DataFile(
        name="sarcos",
        title="SARCOS (test file)",
        path="sarcos/sarcos_inv_test.mat",
        home=HOME,
        sha256="161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec",
    ),
    "train": DataFile(
        name="sarcos-train",
        title="SARCOS (training file)",
        path="sarcos/sarcos_inv.mat",
        home=HOME,
        git_blob="687b7aaa5faf5a9c67fc6655fd59fd8b4539ad55",
    ),
}
JOINTS = range(1, 8)
FEATURES = tuple(f"{kind} {joint}" for kind in ("position", "velocity", "acceleration") for joint in JOINTS)
TARGETS = tuple(f"torque {joint}" for joint in JOINTS)


@dataclass(frozen=True, slots=True, eq=False)
class Sarcos:
    """Movements of a robot arm and the torques that made them.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 21)
        Positions, velocities and accelerations of the seven joints.
    y : ndarray of shape (n_rows, 7)
        Torque of each joint.
    names, targets : tuple of str
        Names of the features and of the columns of ``y``.
    part : {"test", "train"}
    file : Path
        The file that was read.
    sha256 : str
        Its checksum.
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    targets: tuple[str, ...]
    part: str
    file: Path
    sha256: str


def load_sarcos(
    folder: str | Path | None = None, part: Literal["test", "train"] = "test", *, verify: bool = True
) -> Sarcos:
    """Read ``sarcos/sarcos_inv_test.mat`` (4,449 rows) or ``sarcos/sarcos_inv.mat`` (44,484 rows).

    Parameters
    ----------
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    part : {"test", "train"}
    verify : bool
        Refuse a file whose checksum is not that of the published one.

    Notes
    -----
    The rows of the test file are widely reported to occur in the training file too, so they are no held-out data for a
    model that was fitted to it.
    """
    source = FILES[one_of(part, "part", tuple(FILES))]
    file = source.find(folder)
    content, sha256 = source.read(file, verify=verify)
    table = _table(content, file, source)
    width = len(FEATURES) + len(TARGETS)
    if table.ndim != 2 or table.shape[1] != width or table.shape[0] == 0:
        raise DamagedData(
            f"{file} must hold rows of {width} numbers, but an array of shape {table.shape} came; get it again from "
            f"{source.home}"
        )
    wrong = ~np.isfinite(table).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        column = int(np.argmax(~np.isfinite(table[row])))
        came = f"{table[row, column]} in column {column + 1}"
        raise source.damaged_row(file, row + 1, f"{width} finite numbers", came)
    X, y = table[:, : len(FEATURES)], table[:, len(FEATURES) :]
    return Sarcos(X.copy(), y.copy(), FEATURES, TARGETS, part, file, sha256)


def _table(content: bytes, file: Path, source: DataFile) -> Array:
    """Return the one array of a MATLAB 5 file, which goes by the file's name."""
    # Reading MATLAB files pulls in much of SciPy; only this loader needs it.
    from scipy.io import loadmat

    name = Path(source.path).stem
    try:
        arrays = loadmat(io.BytesIO(content))  # type: ignore[arg-type]  # its stubs leave out open files
        table = np.asarray(arrays[name], dtype=np.float64)
    except KeyError:
        held = ", ".join(repr(key) for key in arrays if not key.startswith("__")) or "none"
        raise DamagedData(
            f"{file} must hold an array {name!r}, but its arrays are {held}; get it again from {source.home}"
        ) from None
    # A damaged file can fail in any way inside the reader; each means the same to the caller.
    except Exception as error:
        raise DamagedData(f"cannot read {file} as a MATLAB 5 file: {error}; get it again from {source.home}") from error
    return np.ascontiguousarray(table)
