"""A fleet as one file: saved at once or not at all, and safe to open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from posse.container import Streamed, open_container, write_container
from posse.errors import DamagedFile, InvalidValue, PosseError, UnknownTask
from posse.fleet.file_format import KIND, VERSIONS, Arrays, Reader, require_finite
from posse.fleet.file_restore import restore_fleet
from posse.fleet.file_state import state_of, version_of
from posse.fleet.labels import Label, checked_label
from posse.fleet.rows import listed

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet

AnyFleet = TypeVar("AnyFleet", bound="Fleet")


def save_fleet(fleet: Fleet, path: str | os.PathLike[str]) -> None:
    """Write a fleet; deciding goes on while the file is written, not while the arrays are copied."""
    freeze_whole(fleet)(path)


def freeze_whole(fleet: Fleet) -> Callable[[str | os.PathLike[str]], None]:
    """Return what writes the state that a fleet is in now to a file, all of it copied."""
    with fleet._lock:
        fleet._require_whole()
        fleet._engine.finish_background()
        header, arrays = state_of(fleet)
    return partial(write_fleet, version=version_of(fleet), header=header, arrays=arrays)


def write_fleet(
    path: str | os.PathLike[str], version: int, header: dict[str, Any], arrays: Arrays, *, kind: str = KIND
) -> None:
    """Write what a fleet is made of."""
    for name, array in arrays.items():
        if not isinstance(array, Streamed):
            require_finite(name, array)
    write_container(path, kind=kind, version=version, header=header, arrays=arrays)


def load_fleet(
    cls: type[AnyFleet],
    path: str | os.PathLike[str],
    *,
    tasks: Iterable[Label] | None = None,
    clock: Callable[[], float],
    kind: str = KIND,
) -> AnyFleet:
    """Read a fleet, or some of its tasks."""
    if tasks is not None:
        if isinstance(tasks, str):
            raise InvalidValue(f"expected tasks to be a sequence of names, got the text {tasks!r}; pass [{tasks!r}]")
        tasks = [checked_label(task, "a task") for task in listed(tasks, "tasks to be a sequence of names")]
    with open_container(path, kind=kind, versions=VERSIONS) as box:
        try:
            return restore_fleet(cls, Reader(box, os.fspath(path)), tasks, clock)
        except (DamagedFile, UnknownTask):
            raise
        except (PosseError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DamagedFile(
                f"{os.fspath(path)} is not a fleet that posse could have written: {error}; restore it from a backup"
            ) from None


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a manifest rather than a fleet."""
    try:
        with open(path, "rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False
