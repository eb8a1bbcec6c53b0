"""One connection to Discord's gateway: greeting, heartbeats, resumption, close codes."""

import random
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi
from skerry.infra.supervise import in_background
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_socket import AccountSocket, SocketEndedError

INTENTS: Final = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 15
"""Servers, their messages, direct messages, and the text of messages."""
HELLO_SECONDS: Final = 20.0
_EXTRA_SECONDS: Final = 15.0
_MAX_URL: Final = 512
_NEW_SESSION: Final = frozenset({4003, 4007, 4009})
"""Close codes that end the session, so that it cannot be resumed."""
_LOGIN_CODES: Final = {
    4004: "the token is refused",
    4010: "the shard is refused",
    4011: "the bot is on so many servers that it must divide them, which is not supported",
    4012: "this version of the gateway is no longer supported",
    4013: "the intents are refused",
    4014: "the bot may not read the text of messages",
}
"""Close codes that need a person, or a newer version of this program."""


class Op(IntEnum):
    """Kinds of messages of the gateway."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    RESUME = 6
    RECONNECT = 7
    INVALID = 9
    HELLO = 10
    ACK = 11


class GatewaySession(Struct):
    """A session of the gateway, and the number of the last event that was processed."""

    id: str = ""
    url: str = ""
    seq: int = 0


class GatewayConnection:
    """One WebSocket from its opening to its end.

    `seq` of the session is the number of the last event that was processed, not of the last one
    received: a resumption continues after it. Heartbeats carry it too, because the server may drop
    the events before it.
    """

    def __init__(
        self,
        api: RestApi,
        token: str,
        session: GatewaySession,
        dispatch: Callable[[wire.Frame], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._token = token
        self._session = session
        self._dispatch = dispatch
        self._jitter = jitter
        self._is_acked = True
        self._is_silent = False
        """True when a heartbeat was not answered before the next."""

    async def run(self, url: str) -> None:
        """Receives until the connection ends or must be replaced; updates the session.

        Raises:
            SocketEndedError: the connection broke, or was closed.
            PlatformError: the gateway refuses the bot; `code` is its close code.
            DecodeError: the gateway sends no greeting.
        """
        address = (self._session.url if self._session.id else "") or url
        query = self._api.socket_query
        socket = await AccountSocket.open(self._api.http, f"{address.rstrip('/')}/{query}")
        try:
            await self._exchange(socket)
        except SocketEndedError as error:
            if self._is_silent:
                raise SocketEndedError("The gateway answered no heartbeat.") from error
            if error.code in _NEW_SESSION:
                self._session.id = ""
            if error.code in _LOGIN_CODES:
                self._session.id = ""
                text = f"Discord's gateway closed with {error.code}: {_LOGIN_CODES[error.code]}."
                raise PlatformError(text, code=str(error.code), is_login=True) from error
            raise
        finally:
            socket.close()

    async def _exchange(self, socket: AccountSocket) -> None:
        greeting = wire.frame.decode(await socket.receive(HELLO_SECONDS))
        if greeting.op != Op.HELLO:
            raise SocketEndedError(f"The gateway began with {greeting.op} instead of its greeting.")
        interval = max(wire.hello.decode(greeting.d).heartbeat_interval, 1) / 1000

        async def beat() -> None:
            try:
                await self._beat(socket, interval)
            except SocketEndedError:
                socket.close()  # the reader raises the error

        async with in_background(beat):
            await self._identify(socket)
            while await self._take(socket, 2 * interval + _EXTRA_SECONDS):
                pass

    async def _identify(self, socket: AccountSocket) -> None:
        if self._session.id:
            resumed = {"session_id": self._session.id, "seq": self._session.seq}
            await self._send(socket, Op.RESUME, {"token": self._token, **resumed})
            return
        properties = {"os": "linux", "browser": "skerry", "device": "skerry"}
        identity = {"token": self._token, "intents": INTENTS, "properties": properties}
        await self._send(socket, Op.IDENTIFY, {**identity, "large_threshold": 50})

    async def _take(self, socket: AccountSocket, seconds: float) -> bool:
        """Processes one message of the gateway; returns False when it asks to reconnect."""
        text = await socket.receive(seconds)
        try:
            frame = wire.frame.decode(text)
        except msgspec.DecodeError:
            return True  # an unknown message must not block the others
        match frame.op:
            case Op.DISPATCH:
                self._begin(frame)
                self._dispatch(frame)
            case Op.HEARTBEAT:
                await self._send_beat(socket)
            case Op.ACK:
                self._is_acked = True
            case Op.INVALID if frame.d != b"true":
                self._session.id = ""
            case _:
                pass
        return frame.op not in {Op.RECONNECT, Op.INVALID}

    def _begin(self, frame: wire.Frame) -> None:
        """Stores the session that a READY event begins."""
        if frame.t != "READY":
            return
        begun = wire.ready.decode(frame.d)
        self._session.id, self._session.seq = begun.session_id, frame.s or 0
        self._session.url = begun.resume_gateway_url[:_MAX_URL]

    async def _beat(self, socket: AccountSocket, interval: float) -> None:
        """Sends heartbeats; closes the connection when one is not answered before the next."""
        await anyio.sleep(interval * self._jitter())
        while self._is_acked:
            self._is_acked = False
            await self._send_beat(socket)
            await anyio.sleep(interval)
        self._is_silent = True
        socket.close()

    async def _send_beat(self, socket: AccountSocket) -> None:
        await self._send(socket, Op.HEARTBEAT, self._session.seq or None)

    async def _send(self, socket: AccountSocket, op: Op, data: object) -> None:
        await socket.send(msgspec.json.encode({"op": op, "d": data}).decode())
