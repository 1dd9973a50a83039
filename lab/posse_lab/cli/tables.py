"""Tables for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from posse.simulation.results import SimulationResult


def print_summary(result: SimulationResult, *, title: str, against: str | None = None, note: str = "") -> None:
    """Print one row per policy, best first; ``against`` is the policy that ratios compare with."""
    rows = summary_rows(result, against=against)
    table = Table(title=title, title_justify="left", title_style="bold")
    # Words wrap, numbers do not: they keep their width in a terminal of 80 columns.
    table.add_column("policy", max_width=24)
    table.add_column("settings", min_width=12)
    table.add_column("regret", justify="right", min_width=6)
    table.add_column("± s.e.", justify="right", min_width=6)
    if against is not None:
        table.add_column(f"ratio to {against}", justify="right", min_width=19)
    for row in rows:
        cells = [row["policy"], row["settings"], f"{row['regret']:.1f}", f"{row['standard_error'] or 0.0:.1f}"]
        if against is not None:
            low, high = row["ratio_interval"]
            cells.append("1" if row["policy"] == against else f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})")
        table.add_row(*cells)
    console = Console()
    console.print(table)
    if note:
        console.print(note, highlight=False, soft_wrap=True)


def summary_rows(result: SimulationResult, *, against: str | None = None) -> list[dict[str, Any]]:
    """Return the summary as plain values."""
    rows = result.summary.to_dicts()
    if against is not None:
        for row in rows:
            comparison = result.compare(row["policy"], against)
            row |= {"against": against, "ratio": comparison.ratio, "ratio_interval": comparison.ratio_interval}
    return rows


def print_json(result: SimulationResult, *, against: str | None = None, files: Sequence[str] = ()) -> None:
    """Print settings and summary as one JSON object."""
    print(
        json.dumps(
            {
                "version": result.version,
                "settings": {key: value for key, value in result.settings.items() if key != "steps"},
                "seeds": len(result.seeds),
                "policies": summary_rows(result, against=against),
                "files": list(files),
            },
            indent=2,
        )
    )
