"""uvicorn's WebSocket protocol with frame limits by stage, and the queued frames of a client.

After the handshake the application writes through this object instead of ASGI's `send`, which waits
until the transport is writable: a client that never reads could not be closed.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from struct import Struct
from typing import Any, Final

import h11
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN

from skerry.gateway import frames
from skerry.gateway.asgi import H11Protocol, WebSocketsSansIOProtocol
from skerry.gateway.frames import MAX_BEFORE_CONNECT, MAX_BUFFERED, MAX_PAYLOAD

STATE_KEY: Final = "protocol"
"""Key of the protocol in `scope["state"]`."""

HEAD_BYTES: Final = 16 * 1024
"""Limit of the head of an HTTP request, in bytes."""
HEAD_SECONDS: Final = 10.0
"""Time limit for the head of the first HTTP request, in seconds."""
CLOSE_SECONDS: Final = 5.0
"""Seconds within which a client must answer a close."""
_LINGER_SECONDS: Final = 0.5
_LINGER_LIMIT: Final = 10.0
_REASON_BYTES: Final = 123
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_TOO_LONG_TEXT: Final = f"The head of the request is longer than {HEAD_BYTES:,} bytes.\n".encode()
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_TOO_LONG_TEXT), _TOO_LONG_TEXT)
)
_CORK_BYTES: Final = 64 * 1024
_LENGTH_16: Final = 126
"""Lengths from which a header has two or eight bytes for the length."""
_MAX_16: Final = 0xFFFF
_HEAD_16: Final = Struct("!BBH")
_HEAD_64: Final = Struct("!BBQ")


class GatewayProtocol(WebSocketsSansIOProtocol):
    """One WebSocket; the application gets it as `scope["state"]["protocol"]`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.max_message_size = MAX_BEFORE_CONNECT
        self.congested = False
        """True while the transport's buffer is full; a write would only enlarge it."""
        self.on_writable: Callable[[], None] = _ignore
        """Called when the buffer has emptied."""
        self._linger_limit: asyncio.TimerHandle | None = None
        self._corked = bytearray()
        self._uncorking: asyncio.Handle | None = None

    def admit(self) -> None:
        """Allows frames of the full size after the client was admitted."""
        self.conn.max_message_size = MAX_PAYLOAD

    def write(self, texts: Iterable[bytes]) -> None:
        """Writes text frames; does nothing once the connection is closing.

        Frames of one iteration of the event loop are written together: each write is a system call,
        which costs more than the rest of a frame, and the end of a run has five frames.
        """
        if self.disconnected or self.conn.state is not OPEN:
            return
        for text in texts:
            self._corked += _text_head(len(text)) + text
        if len(self._corked) >= _CORK_BYTES:
            self._uncork()
        elif self._uncorking is None:
            self._uncorking = self.loop.call_soon(self._uncork)

    def end(self, code: int, reason: str = "") -> None:
        """Closes after the written frames; aborts after 5 s without a reaction of the client."""
        if self.disconnected or self.close_sent or self.conn.state is not OPEN:
            return
        self._uncork()
        self.conn.send_close(code, _shortened(reason))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._closing(code)
        self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def handle_connect(self, event: Request) -> None:
        """Passes this object to the application."""
        self.app_state = {**self.app_state, STATE_KEY: self}
        super().handle_connect(event)

    def pause_writing(self) -> None:
        """Marks the transport as full."""
        super().pause_writing()
        self.congested = True

    def resume_writing(self) -> None:
        """Marks the transport as writable."""
        super().resume_writing()
        self.congested = False
        self.on_writable()

    def shutdown(self) -> None:
        """Closes the connection because the gateway stops."""
        if self.handshake_complete and not self.close_sent:
            self.end(1012, "service restart")
        else:
            super().shutdown()

    def handle_parser_exception(self) -> None:
        """Closes after an invalid frame, mostly one that is too large.

        The client is still sending it. Closing at once would reset the connection, and the client
        would not receive the reason. So the rest is read and discarded until the client is silent
        for a moment.
        """
        code = self.conn.close_sent.code if self.conn.close_sent else 1002
        self.conn.data_to_send()  # has the library's wording; peers send none
        close = Frame(Opcode.CLOSE, Close(code, "").serialize())
        self.transport.write(close.serialize(mask=False))
        self._closing(code)
        self._linger_limit = self.loop.call_later(_LINGER_LIMIT, self.transport.abort)
        self._linger()

    def data_received(self, data: bytes) -> None:
        """Parses received data, or discards it while lingering."""
        self._uncork()  # what reading makes the library write comes behind it
        if self._linger_limit is not None:
            self._linger()
            return
        super().data_received(data)

    def handle_text(self, event: Frame) -> None:
        """Passes a frame on; the parser keeps the frame until the next one, but not its data."""
        super().handle_text(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Passes on the next part of a message, as `handle_text`."""
        super().handle_cont(event)
        event.data = b""

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels all timers, and wakes writers."""
        if self._linger_limit is not None:
            self._linger_limit.cancel()
        super().connection_lost(exc)
        self.congested = False
        self.on_writable()

    def _uncork(self) -> None:
        if self._uncorking is not None:
            self._uncorking.cancel()
            self._uncorking = None
        if self._corked and not self.disconnected:
            data, self._corked = self._corked, bytearray()
            self.transport.write(data)

    def _linger(self) -> None:
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _closing(self, code: int) -> None:
        self.stop_keepalive()
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": ""})
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()


def _text_head(size: int) -> bytes:
    """Returns the frame header of a whole text from a server (RFC 6455, 5.2).

    The library would need a tenth of the CPU of a turn for it. It is simple without compression.
    """
    if size < _LENGTH_16:
        return b"\x81%c" % size
    if size <= _MAX_16:
        return _HEAD_16.pack(0x81, _LENGTH_16, size)
    return _HEAD_64.pack(0x81, _LENGTH_16 + 1, size)


class _Limited(h11.Connection):
    """An HTTP connection that also limits a head which arrives in a single read."""

    is_too_long = False
    """True when the head of a request was longer than allowed."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns the next event; see `h11.Connection`.

        Raises:
            h11.RemoteProtocolError: the request is malformed, or its head is too long.
        """
        if self.their_state is h11.IDLE:
            received, _ = self.trailing_data
            if len(received) > HEAD_BYTES and not _HEAD_END.search(received, 0, HEAD_BYTES):
                self.is_too_long = True
                message = "the head of the request is too long"
                raise h11.RemoteProtocolError(message, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return super().next_event()


class HttpProtocol(H11Protocol):
    """One HTTP connection; its first request must be complete within 10 s."""

    _head_timer: asyncio.TimerHandle | None = None
    _linger_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = self._limited = _Limited(h11.SERVER, HEAD_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Starts the timer of the first request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Parses received data, or discards it after a refusal."""
        if self._linger_timer is None:
            super().data_received(data)

    def handle_events(self) -> None:
        """Cancels the timer when the head of the request is complete."""
        super().handle_events()
        if self.scope is not None:
            self._stop_clock()

    def send_400_response(self, msg: str) -> None:
        """Refuses an invalid request; with 431 when its head is too long."""
        if not self._limited.is_too_long:
            super().send_400_response(msg)
            return
        self.transport.write(_TOO_LONG)
        # Closing while the client still sends would reset the connection before it receives the
        # reason; so the rest is read and discarded for a moment.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timers."""
        self._stop_clock()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _ignore() -> None:
    pass


def _shortened(reason: str) -> str:
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")


MAX_DELTAS: Final = 1024 * 1024
"""Limit of queued bytes, above which deltas are dropped."""
_WRITE_BYTES: Final = 64 * 1024


class OutgoingFrames:
    """Queue of the frames to one client.

    Frames are written to the transport while it accepts them, and queued otherwise. An event gets
    its number when it is written, so that dropped deltas leave no gap. `on_overflow` is called
    once, when the queue exceeds the limit; `on_drained` after queued frames were written.
    """

    def __init__(
        self,
        protocol: GatewayProtocol,
        on_overflow: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._on_overflow = on_overflow
        self._on_drained = on_drained
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._seq = 0
        self._closed = False
        self.waiting_bytes = 0
        protocol.on_writable = self._drain

    def response(self, frame: bytes) -> None:
        """Sends a response."""
        if self._protocol.congested or self._waiting:
            self._wait(frame, is_event=False)
        else:
            self._protocol.write((frame,))

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Sends an event; a droppable one is dropped when more than 1 MiB is queued."""
        if self._protocol.congested or self._waiting:
            if not (droppable and self.waiting_bytes > MAX_DELTAS):
                self._wait(head, is_event=True)
            return
        self._seq += 1
        self._protocol.write((frames.numbered(head, self._seq),))

    def close(self) -> None:
        """Drops the queued frames and accepts no more."""
        self._closed = True
        self._waiting.clear()
        self.waiting_bytes = 0
        self._protocol.on_writable = lambda: None

    def _wait(self, data: bytes, *, is_event: bool) -> None:
        if self._closed:
            return
        self._waiting.append((data, is_event))
        self.waiting_bytes += len(data)
        if self.waiting_bytes > MAX_BUFFERED:
            self.close()
            self._on_overflow()

    def _drain(self) -> None:
        while self._waiting and not self._protocol.congested:
            batch: list[bytes] = []
            size = 0
            while self._waiting and size < _WRITE_BYTES:
                data, is_event = self._waiting.popleft()
                self.waiting_bytes -= len(data)
                if is_event:
                    self._seq += 1
                    data = frames.numbered(data, self._seq)
                batch.append(data)
                size += len(data)
            self._protocol.write(batch)
        self._on_drained()
