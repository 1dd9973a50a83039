"""Copies of deleted rows that SQLite leaves in a file.

With ``secure_delete`` SQLite overwrites what it deletes. But when it moves rows from a full page to a new one, the old
places become unused space as they are, and what is deleted later stays readable there. This finds such copies; the
layout of a page is section 1.6 of SQLite's description of its file format.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGES = 256
"""Pages that are read at a time."""

INTERIOR, LEAF = (2, 5), (10, 13)

FOUND = 17
"""What the process returns that found a copy."""


def in_unused_space(path: Path, text: str) -> bool:
    """Say whether a text stands in the unused space of any page of an SQLite file.

    Looks from a process of its own: locks of a file belong to a process, which loses all of them when it closes the
    file anywhere, and SQLite would not know.
    """
    found = subprocess.run(
        [sys.executable, "-I", "-S", __file__, str(path)], input=text.encode(), check=False
    ).returncode
    if found not in (FOUND, 0):
        raise OSError(f"looking for copies in {path} failed")
    return found == FOUND


def _search(path: Path, sought: bytes) -> bool:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(18)[16:], "big")
        size = 65536 if size == 1 else size
        file.seek(0)
        start = 0
        while block := file.read(PAGES * size):
            # Nearly always, nothing is in the whole block: one search is enough then.
            place = block.find(sought)
            while place >= 0:
                page = block[place - place % size :][:size]
                low, high = _unused(page, 100 if start + place < size else 0)
                if low <= place % size and place % size + len(sought) <= high:
                    return True
                place = block.find(sought, place + 1)
            start += len(block)
    return False


def _unused(page: bytes, header: int) -> tuple[int, int]:
    """Return where the space between the list of cells and the cells begins and ends; other pages have none."""
    kind = page[header]
    if kind not in INTERIOR + LEAF:
        return 0, 0
    cells = int.from_bytes(page[header + 3 : header + 5], "big")
    content = int.from_bytes(page[header + 5 : header + 7], "big") or 65536
    return header + (12 if kind in INTERIOR else 8) + 2 * cells, content


if __name__ == "__main__":
    sys.exit(FOUND if _search(Path(sys.argv[1]), sys.stdin.buffer.read()) else 0)
