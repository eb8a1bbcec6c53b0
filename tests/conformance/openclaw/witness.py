"""Stands between a client and the gateway: serves a page too, and keeps every frame."""

import json
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Origin

Frame = dict[str, Any]


@dataclass(slots=True)
class Witness:
    """Where it listens, and what went through it."""

    port: int = 0
    asked: list[Frame] = field(default_factory=list)
    """What clients sent, oldest first."""
    answered: list[Frame] = field(default_factory=list)
    """What the gateway sent, oldest first."""

    @property
    def host(self) -> str:
        """Return the address without a scheme."""
        return f"127.0.0.1:{self.port}"

    def methods(self) -> list[str]:
        """Return the methods that were asked for, in order."""
        return [one["method"] for one in self.asked if one["type"] == "req"]

    def refused(self) -> list[tuple[str, str]]:
        """Return each method that was refused, with the gateway's message."""
        names = {one["id"]: one["method"] for one in self.asked if one["type"] == "req"}
        return [
            (names.get(one["id"], "?"), one["error"]["message"])
            for one in self.answered
            if one["type"] == "res" and not one["ok"]
        ]


@asynccontextmanager
async def witness(gateway: str, pages: Path | None = None) -> AsyncIterator[Witness]:
    """Serve for the block in front of the gateway at the WebSocket address `gateway`."""
    seen = Witness()

    async def through(client: ServerConnection) -> None:
        origin = gateway.replace("ws://", "http://")
        async with (
            connect(gateway, origin=Origin(origin), max_size=None, proxy=None) as server,
            anyio.create_task_group() as both,
        ):
            both.start_soon(_pass, client, server, seen.asked)
            both.start_soon(_pass, server, client, seen.answered)

    def page(connection: ServerConnection, request: Request) -> Response | None:
        if "upgrade" in request.headers.get("connection", "").lower():
            return None
        return _file(pages, request.path) or connection.respond(HTTPStatus.NOT_FOUND, "")

    async with serve(through, "127.0.0.1", 0, process_request=page, max_size=None) as server:
        seen.port = server.sockets[0].getsockname()[1]
        yield seen


async def _pass(source: Connection, target: Connection, kept: list[Frame]) -> None:
    """Hand every message on, then the end with its code and reason."""
    try:
        async for message in source:
            kept.append(json.loads(message))
            await target.send(message)
    except ConnectionClosed:
        pass
    code = source.close_code
    # 1005 and 1006 say that no code came; nobody may send them.
    await target.close(1000 if code in {None, 1005, 1006} else code, source.close_reason or "")


def _file(pages: Path | None, path: str) -> Response | None:
    """Return a file of the page; the page itself for an address that it made up."""
    if pages is None:
        return None
    file = pages / unquote(urlsplit(path).path).lstrip("/")
    if not file.is_file():
        file = pages / "index.html"
    body = file.read_bytes()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    headers = Headers(
        {"content-type": kind, "content-length": str(len(body)), "connection": "close"}
    )
    return Response(200, "OK", headers, body)
