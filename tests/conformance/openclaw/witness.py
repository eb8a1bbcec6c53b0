"""Serves a page of OpenClaw from a separate origin, and records its frames and errors."""

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
class Talk:
    """What went over one connection of a page."""

    asked: list[Frame] = field(default_factory=list)
    answered: list[Frame] = field(default_factory=list)
    over: bool = False
    """Nobody answers any more what it has asked."""

    @property
    def requests(self) -> dict[str, str]:
        """The method of each request, by its id."""
        return {row["id"]: row["method"] for row in self.asked if row.get("type") == "req"}

    @property
    def responses(self) -> list[Frame]:
        """The answers to requests."""
        return [row for row in self.answered if row.get("type") == "res"]


@dataclass(slots=True)
class Witness:
    """The frames and errors of a page since `clear`."""

    talks: list[Talk] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Exceptions that nothing in the page caught."""

    def watch(self, page: Page) -> None:
        """Keeps the frames and the errors of a page from now on."""
        page.on("websocket", lambda socket: self._socket(socket))  # noqa: PLW0108 - playwright marks what it is given; a method of slots cannot be marked
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _socket(self, socket: WebSocket) -> None:
        # A page has one connection. That of a page that was left is not told to be closed, and
        # its last requests are told late.
        for before in self.talks:
            before.over = True
        talk = Talk()
        self.talks.append(talk)
        socket.on("close", lambda _: setattr(talk, "over", True))
        socket.on("framesent", lambda text: talk.asked.append(json.loads(text)))
        socket.on("framereceived", lambda text: talk.answered.append(json.loads(text)))

    def clear(self) -> None:
        """Forgets what was seen; what these connections still say belongs to the page before."""
        self.talks = []
        self.errors.clear()

    def connected(self) -> bool:
        """Returns whether a connection was accepted and is open."""
        return any(
            isinstance(response.get("payload"), dict)
            and response["payload"].get("type") == "hello-ok"
            for talk in self.talks
            if not talk.over
            for response in talk.responses
        )

    def waiting(self) -> list[str]:
        """Returns the methods of requests that have no answer yet."""
        return [
            method
            for talk in self.talks
            if not talk.over
            for number, method in talk.requests.items()
            if number not in {response["id"] for response in talk.responses}
        ]

    def methods(self) -> list[str]:
        """Returns the methods that were asked for, in order."""
        return [method for talk in self.talks for method in talk.requests.values()]

    def refused(self, reasons: Mapping[str, str]) -> list[tuple[str, str]]:
        """Returns each method that was refused and has no reason, with the gateway's message."""
        found = [
            (talk.requests.get(response["id"], "?"), response["error"]["message"])
            for talk in self.talks
            for response in talk.responses
            if not response["ok"]
        ]
        return [(method, why) for method, why in found if method not in reasons]


async def complaints(page: Page) -> list[str]:
    """Returns the texts by which the page says that it could not use an answer."""
    found: list[str] = []
    for selector in UNUSABLE:
        found += await page.locator(selector).filter(visible=True).all_inner_texts()
    return found


@asynccontextmanager
async def served(pages: Path) -> AsyncIterator[str]:
    """Serves the files of a page for the block; yields its origin."""

    async def nothing(client: ServerConnection) -> None:
        await client.close()

    def page(connection: ServerConnection, request: Request) -> Response:
        del connection
        return _file(pages, request.path)

    async with serve(nothing, "127.0.0.1", 0, process_request=page) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def address(origin: str, gateway: GatewayProcess) -> str:
    """Returns the address by which a user opens a page that another server has."""
    url = quote(gateway.address.url, safe="")
    return f"{origin}/chat?session=main&gatewayUrl={url}#token={gateway.token}"


def _file(pages: Path, path: str) -> Response:
    """Returns a file of the page; the page itself for an address that it made up."""
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
