"""The method `logs.tail`: the end of the gateway's own log."""

import json
from typing import Annotated, Final

import anyio.to_thread
import msgspec
from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params
from skerry.infra import log


class LogsTailParams(Params):
    """Parameters of `logs.tail`; `cursor` is the value of the last response."""

    cursor: Annotated[int, Field(ge=0, le=1 << 53)] | None = None
    limit: Annotated[int, Field(ge=1, le=5000)] = 500
    max_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 250_000


async def logs_tail(call: Call, params: LogsTailParams) -> Json:
    """Returns lines of the latest file of the log, each a JSON object as text."""
    folder = call.context.config().state_dir / log.LOGS

    def read() -> Json:
        tail = log.tail(
            folder, cursor=params.cursor, limit=params.limit, max_bytes=params.max_bytes
        )
        return {
            "file": str(tail.file),
            "cursor": tail.cursor,
            "size": tail.size,
            "lines": [_dressed(line) for line in tail.lines],
            "truncated": tail.truncated,
            "reset": tail.reset,
        }

    return await anyio.to_thread.run_sync(read)


def _dressed(line: str) -> str:
    """Returns the line with the keys that clients of the protocol read."""
    try:
        entry = json.loads(line)
        level, time = entry["level"].upper(), entry["time"]
        name = json.dumps({"subsystem": entry["logger"]})
        entry |= {"0": name, "1": entry["message"]}
    except (ValueError, KeyError, TypeError, AttributeError):  # not a line of this log
        return line
    meta = {"_meta": {"logLevelName": level, "date": time, "name": name}}
    return msgspec.json.encode(entry | meta).decode()


METHODS: Final = (Method("logs.tail", LogsTailParams, logs_tail),)
