"""WebSockets of accounts to the servers of their platform."""

import ssl
from typing import Final, Self
from urllib.parse import urlsplit

import httpx2
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from skerry.infra.sockets import Stream
from skerry.net.connect import TargetRefusedError
from skerry.sdk.channel_host import AccountHttp

__all__ = ["AccountSocket", "SocketEndedError"]
DRAIN_SECONDS: Final = 0.25
"""Seconds of silence after which `drain` expects no further message."""
_PORTS: Final = {"ws": 80, "wss": 443}
_MAX_MESSAGE: Final = 4 * 1024 * 1024
_READ: Final = 65_536


class SocketEndedError(Exception):
    """The WebSocket was not opened, broke, or was closed."""

    def __init__(self, message: str, code: int = 0) -> None:
        self.code = code
        """Close code that the server sent; 0 for none."""
        super().__init__(message)


class AccountSocket:
    """An open WebSocket. At most one task may receive at a time; any task may send.

    It answers pings, and accepts messages of up to 4 MiB.
    """

    def __init__(self, stream: Stream, protocol: ClientProtocol) -> None:
        self._stream = stream
        self._protocol = protocol
        self._waiting: list[str] = []
        self._fragments: list[bytes] = []
        self._closed: SocketEndedError | None = None
        """Error of the server's close frame, raised after all earlier messages were received."""

    @classmethod
    async def open(cls, http: AccountHttp, url: str, seconds: float = 15.0) -> Self:
        """Returns a WebSocket to `url`, under the network policy of the account's requests.

        Raises:
            SocketEndedError: `url` is not `ws:` or `wss:`, the policy refuses the host, or the
                server does not open a WebSocket within `seconds`.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise SocketEndedError(f"{parts.scheme!r} is not the scheme of a WebSocket address.")
        port = parts.port or _PORTS[parts.scheme]
        try:
            stream = await http.connect(parts.hostname, port, seconds)
            if parts.scheme == "wss":
                await stream.start_tls(ssl.create_default_context(), parts.hostname, seconds)
        except (TargetRefusedError, httpx2.HTTPError) as error:
            raise SocketEndedError(f"{parts.hostname} cannot be reached: {error}") from error
        socket = cls(stream, ClientProtocol(parse_uri(url), max_size=_MAX_MESSAGE))
        try:
            await socket._shake_hands(seconds)
        except BaseException:
            stream.close()
            raise
        return socket

    async def _shake_hands(self, seconds: float) -> None:
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while self._protocol.handshake_exc is None and self._protocol.state is not OPEN:
            await self._read(seconds)
        if self._protocol.handshake_exc is not None:
            error = self._protocol.handshake_exc
            raise SocketEndedError(f"The server did not open a WebSocket: {error}") from error

    async def receive(self, seconds: float) -> str:
        """Returns the next text message.

        Raises:
            SocketEndedError: the WebSocket ended, or no frame, not even a ping, arrived for
                `seconds`.
        """
        while not self._waiting:
            if self._closed is not None:
                raise self._closed
            await self._read(seconds)
        return self._waiting.pop(0)

    async def send(self, text: str) -> None:
        """Sends a text message.

        Raises:
            SocketEndedError: the WebSocket ended.
        """
        if self._protocol.state is not OPEN:
            raise SocketEndedError("The WebSocket is closed.")
        self._protocol.send_text(text.encode())
        await self._flush()

    async def drain(self) -> list[str]:
        """Returns the messages that still arrive; call it before the socket is closed."""
        try:
            while True:
                await self._read(DRAIN_SECONDS)
        except SocketEndedError:
            waiting, self._waiting = self._waiting, []
            return waiting

    def close(self) -> None:
        """Closes at once."""
        self._stream.close()

    async def _read(self, seconds: float) -> None:
        try:
            data = await self._stream.read(_READ, seconds)
        except httpx2.HTTPError as error:
            raise SocketEndedError(f"The WebSocket broke: {error}") from error
        if not data:
            raise SocketEndedError("The server closed the connection.")
        try:
            self._protocol.receive_data(data)
        except (WebSocketException, InvalidHandshake) as error:
            raise SocketEndedError(f"The server broke the protocol: {error}") from error
        await self._flush()
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
            elif not isinstance(event, Response):
                continue

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            code, reason = (
                int.from_bytes(frame.data[:2]),
                bytes(frame.data[2:125]).decode("utf-8", "replace"),
            )
            suffix = f" with {code}" + (f" ({reason})" if reason else "") if code else ""
            self._closed = SocketEndedError(f"The server closed the WebSocket{suffix}.", code)
        if frame.opcode in {Opcode.TEXT, Opcode.CONT}:
            self._fragments.append(bytes(frame.data))
            if frame.fin:
                self._waiting.append(b"".join(self._fragments).decode("utf-8", "replace"))
                self._fragments = []

    async def _flush(self) -> None:
        """Sends pending frames of the protocol, such as a pong."""
        for data in self._protocol.data_to_send():
            if data:
                try:
                    await self._stream.write(data, 15.0)
                except httpx2.HTTPError as error:
                    raise SocketEndedError(f"The WebSocket broke: {error}") from error
        self._stream.flush()
