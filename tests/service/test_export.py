"""The log as a file: some rows at a time, and the same as all at once."""

import json

import polars as pl
import pytest

from posse.logs import write_log
from posse.service import export
from posse.storage import LoggedDecision

pytest.importorskip("fastapi")


def rows(n, *, context=lambda i: {"x": float(i), "weather": None if i < 25 else "rain", "none": None}):
    """A feature is null at first, another always."""
    return [
        LoggedDecision(
            "stores", i, f"id-{i}", 1.7e9 + i, f"t{i % 7}", "a", 0.5,
            json.dumps({"context": context(i), "eligible": ["a", "b"], "probabilities": [0.5, 0.5], "mean": [0.1, 0.2],
                        "sd": [1.0, 1.0]}),
            "ebm-ts", "1", int(i % 2), 1.5 if i % 2 else None, 1.7e9 + i + 1 if i % 2 else None, i if i % 2 else None,
        )
        for i in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("settings", [{}, {"context": lambda _: {}}])
def test_pieces_make_the_file_that_all_rows_at_once_make(tmp_path, monkeypatch, settings):
    read, sizes = export.read_rows, []
    monkeypatch.setattr(export, "PIECE", 10)
    monkeypatch.setattr(export, "read_rows", lambda parts, _: sizes.append(sum(map(len, parts))) or read(parts))
    made = rows(47, **settings)
    export.write_parquet(iter([made[:7], made[7:40], made[40:]]), tmp_path / "pieces.parquet")
    assert sizes == [10, 10, 10, 10, 7], "no more rows are in memory"
    write_log(read([made]), tmp_path / "whole.parquet", "parquet")
    pieces, whole = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("pieces", "whole"))
    assert pieces.schema == whole.schema
    assert pieces.equals(whole)


def test_an_empty_log_is_a_file_without_rows(tmp_path):
    export.write_parquet(iter([]), tmp_path / "log.parquet")
    assert pl.read_parquet(tmp_path / "log.parquet").height == 0
