"""Activity recognition (Shinmoto Torres et al. 2016): a batteryless sensor on the chest of healthy older people."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from posse.errors import DamagedData, DataFileError, InvalidValue
from posse.types import Array, IntArray
from posse_lab.datasets.folder import DataFile, fetch_command

HOME = (
    "https://archive.ics.uci.edu/dataset/427/"
    "activity+recognition+with+healthy+older+people+using+a+batteryless+wearable+sensor"
)
FEATURES = ("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency")
CLASSES = ("sit on bed", "sit on chair", "lying", "ambulating")
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_ROW = re.compile(rf"(?:{_NUMBER},){{4}}[1-4],(?:{_NUMBER},){{3}}[1-4]")
_EXPECTED = "8 numbers (the fifth an antenna 1 to 4) and an activity 1 to 4"


@dataclass(frozen=True, slots=True)
class Room(DataFile):
    """The trial files of one room: one checksum for all of them, end to end in the order of their names.

    Parameters
    ----------
    number : {1, 2}
    """

    number: int = 1

    def exists(self, place: Path) -> bool:
        """Tell whether there is a folder with at least one trial file."""
        return place.is_dir() and bool(self.names(place))

    def absent(self, place: Path) -> str:
        """Return how to say that there is nothing to read."""
        return f"no trial files in {place}"

    def wants(self, name: str) -> bool:
        """Tell whether this is the name of a trial file of the room."""
        return re.fullmatch(rf"d{self.number}p[0-9]{{2}}[MF]", name) is not None

    def names(self, place: Path) -> list[str]:
        """Return the names of the trial files that are there, sorted."""
        try:
            return sorted(file.name for file in place.iterdir() if self.wants(file.name))
        except OSError as error:
            raise DataFileError(f"cannot read {place}: {error}") from error

    def trials(self, place: Path) -> dict[str, bytes]:
        """Return the trial files by name, in the order of their names."""
        return {name: DataFile.content(self, place / name) for name in self.names(place)}

    def content(self, file: Path) -> bytes:
        """Return all trial files end to end."""
        return b"".join(self.trials(file).values())

    def gather(self, members: dict[str, bytes]) -> dict[str, bytes]:
        """Return the trial files to write, by their place in the data folder."""
        return {f"{self.path}/{name}": members[name] for name in sorted(members) if self.wants(name)}


SHA256 = {
    1: "b4b2a839a1a08c743f2f36ffc328bbf46d6d97fc58ad4cd19f40463016013daf",
    2: "91d1418a640f54eeafd36617ce899ed69ec2c02ac0fb74b6162d2ac53d80d411",
}
ROOMS = {
    n: Room("activity", f"Activity recognition (room {n})", f"activity/S{n}_Dataset", HOME, sha256, number=n)
    for n, sha256 in SHA256.items()
}


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """What people did in one room, and what the sensor on their chest sent meanwhile.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 8)
        Raw values: time in seconds from the start of the trial; accelerations in g; antenna 1 to 4; signal strength;
        phase; frequency in MHz.
    labels : ndarray of shape (n_rows,)
        Index into ``classes``: the file's label less 1.
    trials : ndarray of shape (n_rows,)
        Index into ``trial_names``.
    trial_names : tuple of str
        Names of the trial files, in order; the last letter is the participant's gender.
    names : tuple of str
        Names of the features.
    classes : tuple of str
        The activities.
    room : {1, 2}
    file : Path
        The room's folder.
    sha256 : str
        Checksum of the room's trial files, end to end in the order of their names.
    """

    X: Array
    labels: IntArray
    trials: IntArray
    trial_names: tuple[str, ...]
    names: tuple[str, ...]
    classes: tuple[str, ...]
    room: int
    file: Path
    sha256: str


def load_activity(folder: str | Path | None = None, room: Literal[1, 2] = 1, *, verify: bool = True) -> Activity:
    """Read the trial files in ``activity/S1_Dataset`` (52,482 rows) or ``activity/S2_Dataset`` (22,646 rows).

    Parameters
    ----------
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    room : {1, 2}
        Room 1 has four antennas, room 2 has three.
    verify : bool
        Refuse trial files that are not all of the published ones.

    Returns
    -------
    Activity
        Rows in the order of the files, files in the order of their names. Time never decreases within a trial.
    """
    if isinstance(room, bool) or room not in ROOMS:
        raise InvalidValue(f"room must be 1 or 2, but {room!r} came")
    source = ROOMS[room]
    place = source.find(folder)
    contents = source.trials(place)
    everything = b"".join(contents.values())
    if verify:
        source.approve(everything, place)
    tables = [_table(content, place / name, source) for name, content in contents.items()]
    table = np.concatenate(tables)
    return Activity(
        X=np.ascontiguousarray(table[:, :-1]),
        labels=table[:, -1].astype(np.int64) - 1,
        trials=np.repeat(np.arange(len(tables)), [len(rows) for rows in tables]),
        trial_names=tuple(contents),
        names=FEATURES,
        classes=CLASSES,
        room=int(room),
        file=place,
        sha256=hashlib.sha256(everything).hexdigest(),
    )


def _table(content: bytes, file: Path, source: Room) -> Array:
    """Return the rows of one trial, shape (n_rows, 9)."""
    lines = content.decode("ascii", errors="replace").splitlines()
    if not lines:
        raise DamagedData(
            f"{file} is empty: expected rows of {_EXPECTED}; get it again from {source.home} "
            f"({fetch_command(source.name)})"
        )
    table = np.empty((len(lines), len(FEATURES) + 1))
    before = 0.0
    for row, line in enumerate(lines):
        if _ROW.fullmatch(line) is None:
            raise source.damaged_row(file, row + 1, _EXPECTED, repr(line[:80]))
        cells = [float(cell) for cell in line.split(",")]
        if not all(map(math.isfinite, cells)):
            raise source.damaged_row(file, row + 1, "finite numbers", repr(line[:80]))
        if cells[0] < before:
            raise source.damaged_row(file, row + 1, f"a time of at least {before:g}", f"{cells[0]:g}")
        before = cells[0]
        table[row] = cells
    return table
