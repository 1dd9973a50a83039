"""Where tables are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 150  # columns of a table that goes to a file, which has no width of its own


def table_console() -> Console:
    """Return a console for tables: as wide as the terminal, or wide enough where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)
