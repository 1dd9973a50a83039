"""The log as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from posse.service.describing import READING, failures
from posse.service.export import json_lines, rows_of, write_parquet
from posse.service.routes.common import Ready, Stored, TakingTurns, new_router, scope

router = new_router(tags=["log"])

BLOCK = 1 << 16
PARQUET = "application/vnd.apache.parquet"
JSON_LINES = "application/x-ndjson"


@router.get(
    "/fleets/{fleet}/log",
    dependencies=scope("read"),
    summary="All decisions with their rewards, as a file",
    response_class=Response,
    responses={
        200: {
            "content": {
                JSON_LINES: {"example": '{"decision_id": "3f1c0a9b2d4e-17", "task": "store-17", "arm": "coffee"}\n'},
                PARQUET: {"schema": {"type": "string", "format": "binary"}, "example": "PAR1"},
            }
        },
        **failures(*READING, 404),
    },
)
async def log(
    engine: Ready,
    fleet: Stored,
    alone: TakingTurns,
    format: Annotated[Literal["jsonl", "parquet"], Query(description="jsonl or parquet")] = "jsonl",  # noqa: A002
) -> Response:
    """Stream the log."""
    headers = {"content-disposition": f'attachment; filename="{fleet}.{format}"'}
    if format == "jsonl":
        lines = json_lines(rows_of(engine.storage, fleet))
        return StreamingResponse(lines, media_type=JSON_LINES, headers=headers)
    folder = tempfile.TemporaryDirectory(prefix="posse-")
    path = Path(folder.name) / "log.parquet"
    try:
        await alone.run(write_parquet, rows_of(engine.storage, fleet), path)
    except BaseException:
        folder.cleanup()
        raise

    def blocks() -> Iterator[bytes]:
        with folder, path.open("rb") as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")

    return StreamingResponse(blocks(), media_type=PARQUET, headers=headers)
