"""The claims as a Markdown table, for a page that is not the report."""

from __future__ import annotations

from posse_lab.reproduction.chapters import Chapter, Report
from posse_lab.reproduction.claims import FAILS, HOLDS, ONLY_IF, Claim, count_kinds, kind_of
from posse_lab.reproduction.words import number_words

SYMBOLS = {HOLDS: "✓", ONLY_IF: "◐", FAILS: "✗"}


def claims_markdown(report: Report) -> str:
    """Return every claim with its verdict and the number that decides it."""
    counts = count_kinds(report.claims)
    lines = [
        "# What the paper claims, and what was found",
        "",
        f"Written by `{report.command}` ([how](reproduction.md)), posse {report.version}. Of {len(report.claims)} "
        f"claims {counts[HOLDS]} hold, {counts[ONLY_IF]} hold under a condition and {counts[FAILS]} do not. In "
        "brackets: 95 % bootstrap intervals over seeds.",
        "",
    ]
    if report.note:
        lines += [f"**{report.note}**", ""]
    for chapter in report.chapters:
        lines += _chapter(chapter)
    return "\n".join(lines).rstrip() + "\n"


def _chapter(chapter: Chapter) -> list[str]:
    lines = [f"## {_plain(chapter.title)}", ""]
    if chapter.missing:
        return [*lines, _plain(chapter.missing), ""]
    lines += [f"{_plain(chapter.figure)}. *The paper says:* {_plain(chapter.says)}", ""]
    lines += [f"*Found:* {' '.join(_plain(found) for found in chapter.found)}", ""]
    lines += ["| | claim | verdict | value | what it is | seeds |", "|---|---|---|---|---|---|"]
    lines += [_row(claim) for claim in chapter.claims]
    return [*lines, ""]


def _row(claim: Claim) -> str:
    low, high = (number_words(end) for end in claim.interval)
    value = number_words(claim.value) + (f" ({low} to {high})" if claim.seeds else "")
    cells = (
        SYMBOLS[kind_of(claim.verdict)],
        _plain(claim.claim),
        _plain(claim.verdict),
        value,
        _plain(claim.measure),
        str(claim.seeds) if claim.seeds else "–",
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return text that means nothing to Markdown."""
    for character in "\\|*_`<[":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
