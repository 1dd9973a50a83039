"""The report as one HTML file that needs nothing else: no network, no script, no fonts."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from posse_lab.reproduction.chapters import Report
from posse_lab.reproduction.claims import FAILS, HOLDS, ONLY_IF, count_kinds, kind_of
from posse_lab.reproduction.experiment import Table
from posse_lab.reproduction.words import number_words

KINDS = {HOLDS: ("holds", "✓"), ONLY_IF: ("only-if", "◐"), FAILS: ("fails", "✗")}
"""Class and symbol of each kind of verdict."""

_NUMERAL = r"[-−+]?\d[\d,]*(\.\d+)?(e[-−+]?\d+)?( ?%)?"
_NUMBER = re.compile(rf"{_NUMERAL}( ± {_NUMERAL}| \({_NUMERAL} to {_NUMERAL}\))?")


def render_page(report: Report) -> str:
    """Return the report as one HTML document.

    It holds its style and its figures and follows the reader's light or dark scheme. Every text of the report is shown
    as text, whatever it contains.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Callable[..., Any]] = {
        "number": number_words,
        "cell": _cell,
        "numeric": _numeric_columns,
        "kind": lambda verdict: KINDS.get(kind_of(verdict), ("other", "?")),
        "words": lambda command: re.split(" (?=-)", command),  # a line may break between these
        "data": lambda svg: f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}",
    }
    environment.filters |= filters
    folder = files("posse_lab.reproduction")
    style, template = ((folder / name).read_text("utf-8") for name in ("page.css", "page.html"))
    counts = [(kind, *KINDS[kind], count) for kind, count in count_kinds(report.claims).items()]
    return environment.from_string(template).render(style=style, report=report, counts=counts, only_if=ONLY_IF)


def _numeric_columns(table: Table) -> list[bool]:
    """Return which columns belong at the right: those of numbers, of text that is one (an interval may follow)."""
    return [
        bool(table.rows) and all(_is_number(row[at]) for row in table.rows if at < len(row))
        for at in range(len(table.columns))
    ]


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return not value or _NUMBER.fullmatch(value) is not None
    return not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number_words(value)
