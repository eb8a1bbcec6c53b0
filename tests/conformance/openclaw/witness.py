"""Serves a page of OpenClaw as a user does, from an origin of its own, and keeps what it meets."""

import json
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from playwright.async_api import Page, WebSocket
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from skerry.testing.gateway import GatewayProcess

Frame = dict[str, Any]
UNUSABLE = (".callout.danger", "text=Unsupported schema node")
"""What a page shows where it could not use an answer."""


@dataclass(slots=True)
class Witness:
    """What a page sent, got and complained of."""

    asked: list[Frame] = field(default_factory=list)
    answered: list[Frame] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Exceptions that nothing in the page caught."""

    def watch(self, page: Page) -> None:
        """Keep the frames and the errors of a page from now on."""
        page.on("websocket", lambda socket: self._socket(socket))  # noqa: PLW0108 - playwright marks what it is given; a method of slots cannot be marked
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _socket(self, socket: WebSocket) -> None:
        own: list[Frame] = []

        def sent(text: str | bytes) -> None:
            own.append(json.loads(text))
            self.asked.append(own[-1])

        def closed(_: object) -> None:
            # A button that leaves the page gets no answer to what this one has asked.
            waiting = set(self.waiting())
            self.asked = [
                one for one in self.asked if one not in own or one.get("method") not in waiting
            ]

        socket.on("framesent", sent)
        socket.on("close", closed)
        socket.on("framereceived", lambda text: self.answered.append(json.loads(text)))

    def clear(self) -> None:
        """Forget what was seen."""
        self.asked.clear()
        self.answered.clear()
        self.errors.clear()

    def connected(self) -> bool:
        """Return whether a connection was let in."""
        return any(
            one.get("ok") and one["payload"].get("type") == "hello-ok"
            for one in self.answered
            if one.get("type") == "res" and isinstance(one.get("payload"), dict)
        )

    def waiting(self) -> list[str]:
        """Return the methods of requests that have no answer yet."""
        answered = {one["id"] for one in self.answered if one.get("type") == "res"}
        asked = (one for one in self.asked if one.get("type") == "req")
        return [one["method"] for one in asked if one["id"] not in answered]

    def methods(self) -> list[str]:
        """Return the methods that were asked for, in order."""
        return [one["method"] for one in self.asked if one.get("type") == "req"]

    def refused(self, reasons: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return each method that was refused and has no reason, with the gateway's message."""
        names = {one["id"]: one["method"] for one in self.asked if one.get("type") == "req"}
        found = [
            (names.get(one["id"], "?"), one["error"]["message"])
            for one in self.answered
            if one.get("type") == "res" and not one["ok"]
        ]
        return [(method, why) for method, why in found if method not in reasons]


async def complaints(page: Page) -> list[str]:
    """Return the texts by which the page says that it could not use an answer."""
    found: list[str] = []
    for selector in UNUSABLE:
        found += await page.locator(selector).filter(visible=True).all_inner_texts()
    return found


@asynccontextmanager
async def served(pages: Path) -> AsyncIterator[str]:
    """Serve the files of a page for the block; yield its origin."""

    async def nothing(client: ServerConnection) -> None:
        await client.close()

    def page(connection: ServerConnection, request: Request) -> Response:
        del connection
        return _file(pages, request.path)

    async with serve(nothing, "127.0.0.1", 0, process_request=page) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def address(origin: str, gateway: GatewayProcess) -> str:
    """Return the address by which a user opens a page that another server has."""
    url = quote(gateway.address.url, safe="")
    return f"{origin}/chat?session=main&gatewayUrl={url}#token={gateway.token}"


def _file(pages: Path, path: str) -> Response:
    """Return a file of the page; the page itself for an address that it made up."""
    parts = unquote(urlsplit(path).path).strip("/").split("/")
    # A page at /chat/main names its files relative to that.
    ways = (pages.joinpath(*parts[first:]) for first in range(len(parts)))
    file = next((way for way in ways if way.is_file()), pages / parts[-1])
    if not file.is_file():
        if file.suffix:
            return Response(HTTPStatus.NOT_FOUND, "", Headers({"connection": "close"}))
        file = pages / "index.html"
    body = file.read_bytes()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    headers = Headers(
        {"content-type": kind, "content-length": str(len(body)), "connection": "close"}
    )
    return Response(200, "OK", headers, body)
