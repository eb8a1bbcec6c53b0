"""One HTTP/1.1 connection: h11 says what the bytes mean, a stream carries them.

httpcore2's own connection wraps each step in a trace, a lock and a cancel scope; a request that
costs it 400 us of CPU costs half of that here.
"""

from contextlib import suppress
from typing import Any, Final

import h11
import httpx2

from skerry.infra.sockets import Stream

_HEAD_LIMIT: Final = 100 * 1024  # bytes of a response's head
_READ = 64 * 1024
_SWITCHED: Final = 101
_OVER: Final = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)


class Connection:
    """Carries one request at a time."""

    __slots__ = ("_h11", "_silence", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT)
        self._silence: float | None = None

    async def request(self, request: httpx2.Request) -> h11.Response:
        """Send the request; return the head of its response.

        Raises:
            StaleConnectionError: the server had closed before anything was sent.
            httpx2.TransportError: anything else went wrong; the connection is closed then.
        """
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        self._silence = timeout.get("read")
        try:
            with suppress(httpx2.WriteError):  # a server may answer, and close, in the middle
                await self._send(request, timeout.get("write"))
            return await self._head()
        except h11.LocalProtocolError as error:
            self.close()
            raise httpx2.LocalProtocolError(str(error)) from error
        except BaseException:
            self.close()
            raise

    async def _send(self, request: httpx2.Request, seconds: float | None) -> None:
        link, write = self._h11, self._stream.write
        head = h11.Request(
            method=request.method, target=request.url.raw_path, headers=request.headers.raw
        )
        if not isinstance(request.stream, httpx2.AsyncByteStream):
            raise TypeError("the body of a request is sent asynchronously")
        await write(link.send(head) or b"", seconds)
        async for part in request.stream:
            await write(link.send(h11.Data(data=part)) or b"", seconds)
        if end := link.send(h11.EndOfMessage()):
            await write(end, seconds)

    async def _head(self) -> h11.Response:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if event.status_code == _SWITCHED:
                raise httpx2.RemoteProtocolError("the server switched to another protocol unasked")

    async def part(self) -> bytes | None:
        """Return the next part of the response's body; None at its end, however often it is asked.

        Raises:
            httpx2.TransportError: the body did not come whole.
        """
        if self._h11.their_state in _OVER:
            return None
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _event(self) -> Any:
        link = self._h11
        try:
            while (event := link.next_event()) is h11.NEED_DATA:
                data = await self._stream.read(_READ, self._silence)
                if not data and link.their_state is h11.SEND_RESPONSE:
                    raise httpx2.RemoteProtocolError("the server closed the connection unanswered")
                link.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
        return event

    def rest(self) -> bool:
        """End the present request; return whether the connection can carry another.

        It cannot when the response was not read to its end, or when one side wants to close.
        """
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            return True
        self.close()
        return False

    def is_dead(self) -> bool:
        """Return whether the server closed it, or said something unasked, while it rested."""
        return self._stream.has_news()

    def close(self) -> None:
        """Close at once."""
        self._stream.close()
