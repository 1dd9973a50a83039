"""``posse service ingest``: files of decisions and rewards into the log of a running service."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.errors import InvalidValue

KNOWN = {
    "decision_id", "time", "task", "arm", "context", "propensity", "eligible", "probabilities", "expected_rewards",
    "reward", "reward_family", "reward_time", "policy", "version",
}  # fmt: skip


def ingest(
    file: Annotated[Path, typer.Argument(help="JSON Lines (also .gz), Parquet or CSV.")],
    fleet: Annotated[str, typer.Option("--fleet", "-f", help="The fleet, which must be there.")],
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8080",
    key: Annotated[
        str | None, typer.Option(envvar="POSSE_KEY", help="API key: admin for decisions, reward for rewards.")
    ] = None,
    id_prefix: Annotated[str, typer.Option(help="Prefix of every decision id.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Rows per request.")] = 500,
) -> None:
    """Send decisions and rewards from a file to a running service; rows sent before are not counted again.

    Rows with an arm are decisions, as an export has them; of a table, columns that no log has are features. Rows with a
    decision_id and a reward, and no arm, are rewards of decisions that are there; event names one of several rewards.
    """
    from posse.client import Client

    counts = {"decisions": 0, "rewards": 0, "same": 0, "rows": 0}
    rows = (_prefixed(row, id_prefix) for row in rows_of(file))
    with Client(url, key=key, timeout=30.0, deadline=120.0, retries=8) as client:
        while some := list(islice(rows, batch)):
            decisions = [row for row in some if "arm" in row]
            rewards = [row for row in some if "arm" not in row]
            if decisions:
                done = client.ingest(fleet, decisions)
                for name, value in done._asdict().items():
                    counts[name] += value
            if rewards:
                answer = client.reward_many([(row["decision_id"], row["reward"], row.get("event")) for row in rewards])
                counts["rewards"] += answer.new
                counts["same"] += answer.same
            counts["rows"] += len(some)
    print(
        f"{counts['rows']:,} rows: {counts['decisions']:,} new decisions, {counts['rewards']:,} new rewards, "
        f"{counts['same']:,} that were there"
    )


def _prefixed(row: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {**row, "decision_id": prefix + str(row["decision_id"])} if prefix else row


def rows_of(file: Path) -> Iterator[dict[str, Any]]:
    """Yield rows of a file as they are sent, some in memory at a time; those without an id get one of their content."""
    if not file.is_file():
        raise InvalidValue(f"there is no file {file}; name one of JSON Lines, Parquet or CSV")
    seen: dict[str, int] = {}
    for number, row in enumerate(_raw(file), 1):
        if not isinstance(row, dict):
            raise InvalidValue(f"{file}, row {number}: expected an object, got {type(row).__name__}")
        made = _row(row)
        if "arm" not in made and not {"decision_id", "reward"} <= made.keys():
            raise InvalidValue(f"{file}, row {number}: expected an arm, or a decision_id and a reward; got neither")
        if "arm" in made and "time" not in made:
            raise InvalidValue(f"{file}, row {number}: expected a time, such as 2026-01-31T09:30:00Z, got none")
        if "decision_id" not in made:
            digest = hashlib.sha256(json.dumps(made, sort_keys=True, default=str).encode()).hexdigest()[:24]
            # Two rows may be the same and both be meant.
            seen[digest] = seen.get(digest, 0) + 1
            made["decision_id"] = f"in-{digest}-{seen[digest]}"
        yield made


def _row(row: dict[str, Any]) -> dict[str, Any]:
    known = {name: _plain(value) for name, value in row.items() if name in KNOWN and value is not None}
    others = {name: _plain(value) for name, value in row.items() if name not in KNOWN}
    if "arm" in known:
        known["context"] = {**known.get("context", {}), **others}
        known["task"], known["arm"] = str(known.get("task", "")), str(known["arm"])
    elif others.get("event") is not None:  # of a decision a column of that name is a feature
        known["event"] = str(others["event"])
    return known


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
    return value


def _raw(file: Path) -> Iterator[Any]:
    name = file.name.removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson", ".json")):
        opened: Any = gzip.open if file.name.endswith(".gz") else open
        with opened(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as error:
                        raise InvalidValue(f"{file}, line {number} is not JSON: {error}") from None
        return
    if not name.endswith((".parquet", ".csv")):
        raise InvalidValue(f"expected a file that ends in .jsonl, .parquet or .csv, got {file.name}")
    from posse.batches import TableFiles

    table = TableFiles(file)
    for frame in table.batches(list(table.schema)):
        yield from frame.iter_rows(named=True)
