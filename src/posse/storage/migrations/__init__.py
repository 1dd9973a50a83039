"""Steps from an empty database to the tables that this posse knows; a released step never changes."""

from __future__ import annotations

from importlib import resources

from posse.errors import StorageMismatch

FIRST = 7
"""The number of the first step; versions 1 to 6 were never released, and are not read."""


def migrations(dialect: str) -> list[list[str]]:
    """Return the statements of every step, in order, for ``"sqlite"`` or ``"postgres"``.

    Statements end with a semicolon at the end of a line, where none stands otherwise.

    Examples
    --------
    >>> migrations("sqlite")[0][0].startswith("-- A fleet without a name")
    True
    """
    folder = resources.files(__name__) / dialect
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    steps = [[statement.strip() for statement in file.read_text("utf-8").split(";\n")] for file in files]
    return [[statement for statement in step if statement] for step in steps]


def steps_from(version: int, dialect: str, where: str, *, migrate: bool) -> list[tuple[int, list[str]]]:
    """Return the numbered steps that a storage of a version lacks (0: it is empty); raise if it cannot be used."""
    steps = dict(enumerate(migrations(dialect), FIRST))
    last = max(steps)
    if version > last:
        raise StorageMismatch(
            f"{where} has schema version {version}, but this posse knows versions up to {last}; "
            "it was written by a newer posse: install that one, or restore a backup"
        )
    if 0 < version < FIRST:
        raise StorageMismatch(
            f"expected {where} to have schema version {FIRST} or later, got version {version} of an unreleased posse; "
            "export its logs with that posse, and learn them in a new database (posse service ingest)"
        )
    if version < last and not migrate:
        raise StorageMismatch(
            f"{where} has schema version {version}, but this posse needs {last}; "
            "open it with migrate=True, as posse serve does when it starts"
        )
    return [(number, step) for number, step in steps.items() if number > version]
