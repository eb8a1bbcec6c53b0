"""A client of the wire that sees every frame."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, cast

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.gateway import TOKEN

Frame = dict[str, Any]

UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
"""The headers of a request for a WebSocket, for who writes it by hand."""

OPERATOR = ["operator.read", "operator.write", "operator.admin"]


def connect_params(**changes: Any) -> Frame:
    """Parameters of `connect` that are let in; `None` leaves a key out."""
    params: Frame = {
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": {"id": "test", "version": "1", "platform": "linux", "mode": "test"},
        "role": "operator",
        "scopes": OPERATOR,
        "auth": {"token": TOKEN},
    }
    return {key: value for key, value in (params | changes).items() if value is not None}


def request(method: str, params: Any = None, *, id: object = "1") -> Frame:  # noqa: A002 - the wire's name
    frame: Frame = {"type": "req", "id": id, "method": method}
    return frame if params is None else frame | {"params": params}


def present_modes(frame: Frame) -> list[str]:
    """Returns the modes of those who a `presence` event says are here; none for other frames."""
    told = frame["payload"]["presence"] if frame.get("event") == "presence" else []
    return [row["mode"] for row in told]


class Wire:
    """One connection; keeps every frame that came."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[Frame] = []
        self.hello: Frame = {}
        self._ids = count(1)

    async def send(self, frame: object) -> None:
        await self.socket.send(json.dumps(frame, allow_nan=False))  # else it is no JSON

    async def receive(self) -> Frame:
        with anyio.fail_after(60):
            frame = cast("Frame", json.loads(await self.socket.recv()))
        self.frames.append(frame)
        return frame

    async def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        while True:
            frame = await self.receive()
            if wanted(frame):
                return frame

    async def response(self, id: object) -> Frame:  # noqa: A002 - the wire's name
        return await self.until(lambda frame: frame["type"] == "res" and frame["id"] == id)

    async def event(self, name: str, **payload: Any) -> Frame:
        def matches(frame: Frame) -> bool:
            if frame["type"] != "event" or frame["event"] != name:
                return False
            return bool(payload.items() <= frame["payload"].items())

        return await self.until(matches)

    def seen(self, name: str) -> Frame:
        """Returns the payload of the last event of that name that has come."""
        return next(
            cast("Frame", frame["payload"])
            for frame in reversed(self.frames)
            if frame.get("event") == name
        )

    async def ask(self, method: str, params: Any = None) -> Frame:
        """Sends a request; returns its (first) response."""
        name = f"a{next(self._ids)}"
        await self.send(request(method, params, id=name))
        return await self.response(name)

    async def call(self, method: str, params: Any = None) -> Any:
        """Sends a request that succeeds; returns its payload."""
        answer = await self.ask(method, params)
        assert answer["ok"], answer
        return answer["payload"]

    async def connect(self, **changes: Any) -> Frame:
        """Sends `connect`; returns its response."""
        await self.send(request("connect", connect_params(**changes), id="connect"))
        return await self.response("connect")

    async def closed(self) -> tuple[int | None, str | None]:
        """Returns the close code and reason, after whatever still comes before."""
        with anyio.fail_after(60):
            try:
                while True:
                    self.frames.append(json.loads(await self.socket.recv()))
            except ConnectionClosed:
                return self.socket.close_code, self.socket.close_reason


@asynccontextmanager
async def dial(url: str, **options: Any) -> AsyncIterator[Wire]:
    """Opens a connection and reads its challenge."""
    options = {"max_size": None, "proxy": None, "open_timeout": 60} | options
    async with connect(url, **options) as socket:
        wire = Wire(socket)
        challenge = await wire.receive()
        assert challenge["event"] == "connect.challenge"
        yield wire


@asynccontextmanager
async def connected(url: str, **changes: Any) -> AsyncIterator[Wire]:
    """Opens a connection that is let in."""
    async with dial(url) as wire:
        answer = await wire.connect(**changes)
        assert answer["ok"], answer
        wire.hello = answer["payload"]
        yield wire
