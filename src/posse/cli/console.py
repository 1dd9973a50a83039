"""Where tables are printed, and what they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

PLAIN_WIDTH = 150  # columns of a table that goes to a file, which has no width of its own


def table_console() -> Console:
    """Return a console for tables: as wide as the terminal, or wide enough where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def titled_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """Return an empty table with words to the left and numbers, which are never cut, to the right."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False
    )
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap="\n" not in heading)
    return table
