"""Lines that say what is known about a task from then on, between those of decisions and rewards."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from posse.logs.kinds import AtLine, BadLine
from posse.logs.rows import BadRow, shown
from posse.logs.strict import decode
from posse.logs.times import as_text, as_times

if TYPE_CHECKING:
    import polars as pl

KEY = "task_features"
KEYS = {KEY, "task", "time"}
EXPECTED = f"a line with {KEY} has task and {KEY}, may have time, and nothing else"
SCALARS = (str, bool, int, float, type(None))


class KnownLines:
    """Collects these lines; their table has columns time and task and one for every feature."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._lines: list[int] = []

    def take(self, numbers: pl.Series, texts: pl.Series) -> pl.Series:
        """Take the lines that are such ones; return which."""
        import polars as pl

        mine = texts.str.contains(f'"{KEY}"', literal=True).fill_null(value=False).to_list()
        for place, found in enumerate(mine):
            if found:
                mine[place] = self._take(int(numbers[place]), texts[place])
        return pl.Series(mine, dtype=pl.Boolean())

    def _take(self, line: int, text: str) -> bool:
        try:
            record = decode(text)
            if record.get(KEY) is None:
                return False  # the text is somewhere else in the line
            if not isinstance(record[KEY], dict) or record.get("task") is None or not record.keys() <= KEYS:
                raise BadLine(EXPECTED)
            wrong = next((value for value in record[KEY].values() if not isinstance(value, SCALARS)), None)
            if wrong is not None:
                raise BadLine(f"a task feature must be a number, text, true or false, but {shown(wrong)} came")
            if {"task", "time"} & record[KEY].keys():
                raise BadLine("a task feature cannot be called task or time")
        except BadLine as error:
            raise AtLine(line, str(error)) from None
        self._rows.append({"time": record.get("time"), "task": record["task"], **record[KEY]})
        self._lines.append(line)
        return True

    def table(self) -> pl.DataFrame | None:
        """Return the lines as a table, in their order; None if there are none."""
        import polars as pl

        if not self._rows:
            return None
        names = dict.fromkeys(name for row in self._rows for name in row)
        try:
            columns = [pl.Series(name, [row.get(name) for row in self._rows]) for name in names]
        except (TypeError, pl.exceptions.PolarsError):
            raise AtLine(self._lines[0], "from here on, a task feature has values of several types") from None
        try:
            columns[0] = as_times(columns[0], "time").alias("time")
        except BadRow as error:
            raise AtLine(self._lines[error.row], error.problem) from None
        return pl.DataFrame(columns)


def write_known(table: pl.DataFrame | None, stream: IO[bytes]) -> None:
    """Write what was known about tasks as such lines."""
    if table is None:
        return
    for row in table.with_columns(as_text(table["time"])).iter_rows(named=True):
        when, task = row.pop("time"), row.pop("task")
        stream.write(json.dumps({KEY: row, "task": task, "time": when}, ensure_ascii=False).encode() + b"\n")
