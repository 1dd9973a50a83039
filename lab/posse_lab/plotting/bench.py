"""What ``posse lab bench`` measured, drawn from the report it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posse.plotting.intervals import Interval, plot_intervals
from posse_lab.plotting.panels import Panel, Series, plot_panels

MICRO = 1e6
AXES = {"n_tasks": "tasks", "n_arms": "arms", "n_features": "features"}
LETTERS = {"n_tasks": "N", "n_arms": "K", "n_features": "d"}


def plot_step(report: Mapping[str, Any], paths: Sequence[str | Path]) -> None:
    """Draw the latency of every call against tasks, arms and features, and the compiled step beside its floor.

    Parameters
    ----------
    report : mapping
        What ``step.json`` holds.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    base = report["base"]
    # What was measured at one size only, and refreshes, which take milliseconds, have no line.
    sizes = {what: {_size(row) for row in report["rows"] if row["what"] == what} for what in _kinds(report)}
    calls = [what for what in _kinds(report) if len(sizes[what]) > 1 and not what.endswith("refresh")]
    panels = []
    for varied, words in AXES.items():
        rest = [name for name in AXES if name != varied]
        series = []
        for what in calls:
            rows = [r for r in report["rows"] if r["what"] == what and all(r[name] == base[name] for name in rest)]
            rows.sort(key=lambda row: row[varied])
            series.append(_line(what, [row[varied] for row in rows], [row["best"] * MICRO for row in rows]))
        fixed = ", ".join(f"{LETTERS[name]}={base[name]:,}" for name in rest)
        panels.append(
            Panel(title=f"A call, {fixed}", series=series, x_label=words, y_label="µs", log_x=True, log_y=True)
        )
    panels.append(_floor_panel(report["floors"]))
    note = f"The best of the rounds. {_machine(report)}"
    plot_panels(panels, paths, note=note)


def _floor_panel(floors: Sequence[Mapping[str, Any]]) -> Panel:
    series = []
    for n_tasks in dict.fromkeys(floor["n_tasks"] for floor in floors):
        some = sorted((floor for floor in floors if floor["n_tasks"] == n_tasks), key=lambda floor: floor["n_features"])
        features = [floor["n_features"] for floor in some]
        series += [
            _line(f"step, N={n_tasks:,}", features, [floor["step_seconds"]["best"] * MICRO for floor in some]),
            _line(f"its floor, N={n_tasks:,}", features, [floor["floor_seconds"] * MICRO for floor in some]),
        ]
    title = f"The compiled step and its floor, K={floors[0]['n_arms']}"
    return Panel(title=title, series=series, x_label="features", y_label="µs", log_x=True, log_y=True)


def plot_scale(report: Mapping[str, Any], paths: Sequence[str | Path]) -> None:
    """Draw what a fleet learns per second, how long a refresh takes, memory and latency, against tasks.

    Parameters
    ----------
    report : mapping
        What ``scale.json`` holds.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    results = sorted(report["results"], key=lambda result: result["job"]["n_tasks"])

    def line(name: str, value: Callable[[Mapping[str, Any]], Any], scale: float = 1.0) -> Series:
        values = [value(result) for result in results]
        numbers = [float("nan") if one is None else one * scale for one in values]
        return _line(name, [result["job"]["n_tasks"] for result in results], numbers)

    panels = [
        _tasks_panel("Learning", [line("learned", lambda r: r["rows_per_second"])], "rewards a second", {"bar": 1e6}),
        _tasks_panel(
            "Estimating the prior of all arms", [line("refresh", lambda r: r["refresh"])], "seconds", {"bar": 45.0}
        ),
        _tasks_panel(
            "Resident memory",
            [line("most", lambda r: r["peak"], 1e-9), line("in the end", lambda r: r["resident"], 1e-9)],
            "GB",
            {"bar": 8.0},
        ),
        _tasks_panel(
            "A decision",
            [
                line("99.9 % in a refresh", lambda r: r["decide_behind"].get("p99.9"), MICRO),
                line("99.9 %", lambda r: r["decide"]["p99.9"], MICRO),
                line("median", lambda r: r["decide"]["median"], MICRO),
            ],
            "µs",
            {"bar in a refresh": 2000.0},
        ),
    ]
    job = results[0]["job"]
    note = f"K={job['n_arms']}, d={job['n_features']}, {job['rewards']} rewards per task. {_machine(report)}"
    plot_panels(panels, paths, note=note)


def plot_simulate(report: Mapping[str, Any], paths: Sequence[str | Path]) -> None:
    """Draw how long a step of every policy takes in the simulator, one group per world.

    Parameters
    ----------
    report : mapping
        What ``simulate.json`` holds.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    rows = [
        Interval(
            label=row["policy"],
            value=row["best"] * MICRO,
            low=row["best"] * MICRO,
            high=row["median"] * MICRO,
            group=" ".join(f"{letter}={row['size'][name]:,}" for name, letter in LETTERS.items()),
        )
        for row in report["rows"]
    ]
    note = (
        "A point is the best of the rounds, a line reaches to their median; the vertical line is one microsecond. "
        f"{_machine(report)}"
    )
    plot_intervals(rows, paths, x_label="µs per step, one core", log_x=True, note=note)


def _tasks_panel(title: str, series: Sequence[Series], unit: str, reference: Mapping[str, float]) -> Panel:
    # A panel of nothing but gaps would have no limits.
    drawn = [line for line in series if not np.isnan(line.y).all()] or series
    return Panel(
        title=title, series=drawn, x_label="tasks", y_label=unit, log_x=True, log_y=True, reference=dict(reference)
    )


def _line(name: str, x: Sequence[float], y: Sequence[float]) -> Series:
    return Series(name=name, x=np.array(x, dtype=np.float64), y=np.array(y, dtype=np.float64))


def _kinds(report: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["what"] for row in report["rows"]))


def _size(row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in AXES)


def _machine(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    return f"{machine['processor']}, {cores}; posse {machine['posse']}."
