"""Where tables are printed, and what they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

PLAIN_WIDTH = 150  # columns of a table that goes to a file, which has no width of its own
GAP = 2  # between columns
LONGEST_HEADING = 24  # that is not folded


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


def print_in_blocks(
    console: Console, title: str, heading: str, names: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]]
) -> None:
    """Print a row per name and a column per entry, in as many tables as the width of the console needs."""
    from rich.markup import escape

    first = min(max(map(len, (heading, *names))), console.width // 3)
    widths = [max(*map(len, cells), min(len(name), LONGEST_HEADING)) for name, cells in columns]
    blocks: list[list[int]] = []
    used = console.width
    for place, width in enumerate(widths):
        if used + GAP + width > console.width:
            blocks.append([])
            used = first
        blocks[-1].append(place)
        used += GAP + width
    console.print(f"\n[bold]{escape(title)}[/bold]", highlight=False)
    for number, block in enumerate(blocks):
        table = titled_table("", [], [])
        table.add_column(heading, width=first, overflow="fold")
        for place in block:
            table.add_column(escape(columns[place][0]), width=widths[place], justify="right", overflow="fold")
        for row, name in enumerate(names):
            table.add_row(escape(name), *(columns[place][1][row] for place in block))
        if number:
            console.print()
        console.print(table)
