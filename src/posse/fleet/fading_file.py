"""What a file of a fleet with drift has beside sums and beliefs: its clock, and what it looks for changes with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.drift import EVERYWHERE, Change
from posse.errors import InvalidValue

if TYPE_CHECKING:
    from posse.engine.fading import Fading
    from posse.engine.noticing import Detector
    from posse.types import IntArray

DAY = 86400.0
LATEST = 1e12  # seconds since the epoch


def fading_state(fading: Fading, place: IntArray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes into the header, and arrays; ``place`` is where the task of each number stands in the file."""
    drift = fading.drift
    header = {
        "drift": "learn" if fading.given is None else fading.given / DAY,
        "half_life": None if math.isinf(drift.half_life) else drift.half_life,
        "aged_at": drift.aged_at,
        "rewards_noted": drift.noted,
    }
    arrays: dict[str, Any] = {"drift_squares": drift.squares.copy()}
    for end, detector in _detectors(fading):
        header[f"change_sum{end}"] = detector.world_sum
        for name, sums in (("task", detector.task_sums), ("share", detector.world_shares)):
            arrays[f"drift_{name}_of{end}"] = place[np.array(list(sums), dtype=np.int64)]
            arrays[f"drift_{name}_sum{end}"] = np.array(list(sums.values()), dtype=np.float64)
    changed = np.array([change.task for change in drift.changes], dtype=np.int64)
    arrays["drift_change_task"] = np.where(changed == EVERYWHERE, EVERYWHERE, place[changed])
    arrays["drift_change_time"] = np.array([change.time for change in drift.changes], dtype=np.float64)
    watch = drift.half_lives
    if watch is not None:
        pairs = np.array(list(watch.pairs), dtype=np.int64).reshape(-1, 2)
        rows = np.array(list(watch.pairs.values()), dtype=np.int64)
        arrays |= {"drift_pair_task": place[pairs[:, 0]], "drift_pair_arm": pairs[:, 1].copy()}
        arrays |= {"drift_score": watch.score.copy(), "drift_pair_time": watch.time[rows]}
        arrays |= {"drift_pair_count": watch.counts[rows], "drift_pair_moment": watch.moment[rows]}
        arrays["drift_pair_gram"] = watch.gram[rows]
    return header, arrays


def drift_in(header: dict[str, Any]) -> Any:
    """Return the drift that a header names, as a fleet takes it."""
    drift = header["drift"]
    if drift != "learn" and not (type(drift) is float and 0 < drift < math.inf):
        raise InvalidValue(f"drift is {drift!r}")
    return drift


def restore_fading(fading: Fading, reader: Any, n_tasks: int, some: int | None) -> None:
    """Put what a file says in its place; little, if only ``some`` tasks are loaded.

    Tasks of a new fleet have the numbers of their places in the file.
    """
    drift, header, d = fading.drift, reader.header, fading.drift.squares.size
    half_life, at = header["half_life"], header["aged_at"]
    if half_life is not None:
        known = [fading.given] if drift.half_lives is None else drift.half_lives.candidates.tolist()
        if half_life not in known:
            raise reader.damaged(f"half_life is {half_life!r}")
        drift.half_life = float(half_life)
    elif drift.half_lives is None:
        raise reader.damaged("half_life is None")
    if at is not None and not (type(at) is float and abs(at) <= LATEST):
        raise reader.damaged(f"aged_at is {at!r}")
    drift.aged_at = at
    if some is not None:
        return
    drift.squares[:] = _positive(reader, "drift_squares", (d,))
    drift.noted = reader.whole("rewards_noted")
    for end, detector in _detectors(fading):
        total = header[f"change_sum{end}"]
        if type(total) is not float or not 0 <= total < 1e6:
            raise reader.damaged(f"change_sum{end} is {total!r}")
        detector.world_sum = total
        detector.task_sums = _sums(reader, "task", end, n_tasks)
        detector.world_shares = _sums(reader, "share", end, n_tasks)
    size = reader.box.shape("drift_change_task")
    tasks = reader.within(
        "drift_change_task", reader.array("drift_change_task", size, np.int64), EVERYWHERE, max(n_tasks, 0)
    )
    times = reader.array("drift_change_time", size)
    if (np.abs(times) > LATEST).any():
        raise reader.damaged("drift_change_time has times that are no times")
    drift.changes = [Change(time, task) for time, task in zip(times.tolist(), tasks.tolist(), strict=True)]
    if drift.half_lives is not None:
        _restore_watch(fading, reader, n_tasks)


def _restore_watch(fading: Fading, reader: Any, n_tasks: int) -> None:
    watch, d = fading.drift.half_lives, fading.drift.squares.size
    assert watch is not None
    n_arms, h = fading.n_arms, watch.candidates.size
    (n,) = reader.box.shape("drift_pair_task")
    tasks = reader.within("drift_pair_task", reader.array("drift_pair_task", (n,), np.int64), 0, n_tasks)
    arms = reader.within("drift_pair_arm", reader.array("drift_pair_arm", (n,), np.int64), 0, n_arms)
    watch.score[:] = reader.array("drift_score", (h,))
    watch.pairs = {pair: row for row, pair in enumerate(zip(tasks.tolist(), arms.tolist(), strict=True))}
    if len(watch.pairs) != n:
        raise reader.damaged("a pair of task and arm is watched twice")
    watch.tasks = dict.fromkeys(tasks.tolist())
    watch.time = reader.array("drift_pair_time", (n,))
    watch.counts = _positive(reader, "drift_pair_count", (n, h))
    watch.moment = reader.array("drift_pair_moment", (n, h, d))
    watch.gram = reader.array("drift_pair_gram", (n, h, d, d))


def _detectors(fading: Fading) -> list[tuple[str, Detector]]:
    """Return what sums of changes there are, each with the end of its names; a half-life that is given has none."""
    found = [
        ("" if number == 0 else f"_{name}", one) for number, (name, one) in enumerate(fading.drift.detectors.items())
    ]
    return found if fading.drift.learned else found[:1]


def _sums(reader: Any, name: str, end: str, n_tasks: int) -> dict[int, float]:
    of, sums = f"drift_{name}_of{end}", f"drift_{name}_sum{end}"
    size = reader.box.shape(of)
    tasks = reader.within(of, reader.array(of, size, np.int64), 0, n_tasks)
    return dict(zip(tasks.tolist(), reader.array(sums, size).tolist(), strict=True))


def _positive(reader: Any, name: str, shape: tuple[int, ...]) -> Any:
    values = reader.array(name, shape)
    if (values < 0).any():
        raise reader.damaged(f"{name} has values below 0")
    return values
