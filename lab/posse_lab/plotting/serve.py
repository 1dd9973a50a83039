"""The service under load, drawn from the report that ``posse lab bench serve`` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posse_lab.plotting.panels import Panel, Series, plot_panels


def plot_serve(report: Mapping[str, Any], paths: Sequence[str | Path]) -> None:
    """Draw pairs a second, latency and memory over time, a line per storage, and all latencies by their quantiles.

    Parameters
    ----------
    report : mapping
        What ``serve.json`` holds.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    runs = report["runs"]

    def over_time(values: Callable[[Mapping[str, Any]], list[float]]) -> list[Series]:
        lines = [(run["storage"], values(run)) for run in runs]
        return [_line(name, range(1, len(some) + 1), some) for name, some in lines if not np.isnan(some).all()]

    panels = [
        _panel(
            "Decisions with their rewards",
            over_time(lambda run: [second["pairs"] for second in run["load"]["timeline"]]),
            "pairs a second",
            bar=1000.0,
        ),
        _panel("Requests of every second, 99 %", over_time(_slow), "ms", bar=50.0, log=True),
        _panel(
            "Resident memory of the service",
            over_time(lambda run: [bytes_now / 1e6 for bytes_now in run["memory"]] or [np.nan]),
            "MB",
        ),
        _quantiles_panel(runs),
    ]
    plan, machine = report["plan"], report["machine"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    note = (
        f"{plan['n_tasks']:,} tasks, {plan['n_arms']} arms, {plan['n_features']} features, {plan['connections']} "
        "connections a process; load and service on one machine. "
        + "; ".join(f"{run['storage']}: {_processes(run['deciders'])}" for run in runs)
        + f". {machine['processor']}, {cores}; posse {machine['posse']}."
    )
    plot_panels([panel for panel in panels if panel.series], paths, note=note)


def _slow(run: Mapping[str, Any]) -> list[float]:
    return [np.nan if second["p99"] is None else second["p99"] * 1e3 for second in run["load"]["timeline"]]


def _quantiles_panel(runs: Sequence[Mapping[str, Any]]) -> Panel:
    series = []
    for run in runs:
        for kind in ("decide", "reward"):
            found = run["load"][kind]
            if found["requests"]:
                # One request in so many takes longer: 2 for the median, 1000 for 99.9 %.
                rare = [2.0, 20.0, 100.0, 1000.0]
                times = [found["quantiles"][name] * 1e3 for name in ("p50", "p95", "p99", "p99.9")]
                series.append(_line(f"{run['storage']}, {kind}", rare, times))
    return Panel(
        title="One request in so many takes longer",
        series=series,
        x_label="requests",
        y_label="ms",
        log_x=True,
        log_y=True,
        reference={"bar at 100": 50.0},
    )


def _panel(title: str, series: Sequence[Series], unit: str, *, bar: float | None = None, log: bool = False) -> Panel:
    reference = {} if bar is None else {"bar": bar}
    return Panel(title=title, series=series, x_label="seconds", y_label=unit, log_y=log, reference=reference)


def _line(name: str, x: Sequence[float], y: Sequence[float]) -> Series:
    return Series(name=name, x=np.array(x, dtype=np.float64), y=np.array(y, dtype=np.float64))


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"
