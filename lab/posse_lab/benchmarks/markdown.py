"""The regret benchmark as Markdown, for the docs."""

from __future__ import annotations

from collections.abc import Sequence

from posse_lab.benchmarks.regret import RegretReport
from posse_lab.benchmarks.settings import EVIDENCE, FIXED, KNOWN, PAPER_TS, PAPER_UCB, POOLED, TUNED


def regret_markdown(report: RegretReport) -> str:
    """Return the tables of a report: bars, regret of every method, checks between settings."""
    parts = []
    if report.rows:
        parts.append(
            table(
                ["setting", "seeds", "UCB / paper", "bar", "UCB / known", "bar", "met"],
                [
                    [
                        row.title,
                        str(row.seeds),
                        str(row.to_paper),
                        row.to_paper.bar,
                        str(row.to_known),
                        row.to_known.bar,
                        verdict(row.met),
                    ]
                    for row in report.rows
                ],
            )
        )
        methods = [PAPER_UCB, PAPER_TS, *EVIDENCE, *KNOWN, FIXED]
        parts.append(
            "Mean cumulative regret:\n\n"
            + table(
                ["setting", *methods, "LinUCB tuned", POOLED],
                [
                    [
                        row.title,
                        *(f"{row.methods[name].regret:.1f}" for name in methods),
                        f"{row.methods[row.tuned].regret:.1f} (at {TUNED[row.tuned]:g})",
                        f"{row.methods[POOLED].regret:.1f}",
                    ]
                    for row in report.rows
                ],
            )
        )
    if report.everyday:
        parts.append(
            "Everyday rewards, mean cumulative regret:\n\n"
            + table(
                ["setting", "seeds", *EVIDENCE, "best rival", *(f"{name} / rival" for name in EVIDENCE), "bar", "met"],
                [
                    [
                        row.title,
                        str(row.seeds),
                        *(f"{row.methods[name].regret:.1f}" for name in EVIDENCE),
                        "" if row.rival is None else f"{row.methods[row.rival].regret:.1f} ({row.rival})",
                        *(map(str, row.ratios) if row.ratios else [""] * len(EVIDENCE)),
                        row.ratios[0].bar if row.ratios else "",
                        verdict(row.met),
                    ]
                    for row in report.everyday
                ],
            )
        )
    if report.checks:
        parts.append(
            "Units, offsets, and ordinary tasks beside outlier tasks:\n\n"
            + table(
                ["regret of", "over that of", "seeds", "ratio", "bar", "met"],
                [
                    [check.first, check.second, str(check.seeds), str(check), check.bar, verdict(check.met)]
                    for check in report.checks
                ],
            )
        )
    if report.skipped:
        parts.append("\n".join(f"Not run: {name} ({reason})" for name, reason in report.skipped.items()))
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [list(header), *rows]
    written = ["| " + " | ".join(cells) + " |" for cells in lines]
    written.insert(1, "|" + "---|" * len(header))
    return "\n".join(written)


def verdict(met: bool | None) -> str:
    """Return a promise kept, broken or never made, in a word."""
    return "" if met is None else "yes" if met else "no"
