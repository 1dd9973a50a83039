"""Steps from an empty database to the tables that this posse knows, numbered from 1; a released step never changes."""

from __future__ import annotations

from importlib import resources

from posse.errors import StorageMismatch


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
    """Return the numbered steps that a storage of a version lacks; raise if it is newer, or older and must stay so."""
    steps = migrations(dialect)
    if version > len(steps):
        raise StorageMismatch(
            f"{where} has schema version {version}, but this posse knows versions up to {len(steps)}; "
            "it was written by a newer posse: install that one, or restore a backup"
        )
    if version < len(steps) and not migrate:
        raise StorageMismatch(
            f"{where} has schema version {version}, but this posse needs {len(steps)}; "
            "open it with migrate=True, as posse serve does when it starts"
        )
    return list(enumerate(steps, 1))[version:]
