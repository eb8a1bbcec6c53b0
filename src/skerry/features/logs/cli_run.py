"""`skerry logs`: prints the log of a running gateway, else its file."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from skerry.cli.render import notice, one_line, plain, show, show_json, styled
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import locate
from skerry.infra.log import LOGS, tail
from skerry.model.errors import GatewayUnreachableError

POLL_SECONDS: Final = 1.0
MAX_LINES: Final = 5000
"""Number of lines of one request."""
_MAX_BYTES: Final = 1_000_000
_STYLES: Final = {"warning": "yellow", "error": "red", "critical": "red", "debug": "dim"}
_FIELDS: Final = ("time", "level", "logger", "message", "error")

Read = Callable[[int | None, int], Awaitable[dict[str, Any]]]
"""Returns at most this many lines after a cursor, like `logs.tail`."""


def run(arguments: Namespace) -> int:
    """Runs `skerry logs`; returns the exit code."""
    return anyio.run(_logs, arguments)


async def _logs(arguments: Namespace) -> int:
    position = _Position(arguments.json)
    local = arguments.url is None
    try:
        address = find(os.environ, url=arguments.url, token=arguments.token)
        async with GatewayClient(address, scopes=("operator.read",)) as client:

            async def ask(cursor: int | None, limit: int) -> dict[str, Any]:
                params: dict[str, Any] = {"limit": limit, "maxBytes": _MAX_BYTES}
                answer = await client.request(
                    "logs.tail", params if cursor is None else params | {"cursor": cursor}
                )
                return dict(answer)

            await position.show(ask, arguments.lines, follow=arguments.follow)
    except GatewayUnreachableError:
        if not local:
            raise
        folder = locate(os.environ)[0] / LOGS
        notice(f"No gateway is running. Showing its log from {folder}.")
        await position.show(_of_file(folder), arguments.lines, follow=arguments.follow)
    return 0


def _of_file(folder: Path) -> Read:
    async def read(cursor: int | None, limit: int) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            end = tail(folder, cursor=cursor, limit=limit, max_bytes=_MAX_BYTES)
            return {"file": str(end.file), "cursor": end.cursor, "lines": end.lines}

        return await anyio.to_thread.run_sync(look)

    return read


@dataclass(slots=True)
class _Position:
    """Position in the log; it remains valid for the file when the gateway ends."""

    as_json: bool
    file: str = ""
    cursor: int | None = None

    async def show(self, read: Read, lines: int, *, follow: bool) -> None:
        """Prints the last `lines`, and with `follow` the new ones."""
        while True:
            page = await read(self.cursor, lines if self.cursor is None else MAX_LINES)
            if self.file and page["file"] != self.file:  # a new day
                page = await read(0, MAX_LINES)
            self.file, self.cursor = page["file"], page["cursor"]
            for line in page["lines"]:
                self._print(line)
            if not follow:
                return
            sys.stdout.flush()
            await anyio.sleep(POLL_SECONDS)

    def _print(self, line: str) -> None:
        entry: Any = None
        with suppress(ValueError):
            entry = json.loads(line)
        if not isinstance(entry, dict):
            show_json({"message": line}) if self.as_json else show(plain(line))
            return
        parts = {key: str(entry[key]) for key in _FIELDS if key in entry}
        if self.as_json:
            show_json(parts)
            return
        level = parts.get("level", "")
        head = [parts.get("time", ""), styled(one_line(level).ljust(7), _STYLES.get(level, "dim"))]
        show(" ".join([*head, one_line(f"{parts.get('logger', '')}: {parts.get('message', '')}")]))
        if "error" in parts:
            show(plain(parts["error"]))
