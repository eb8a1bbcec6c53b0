"""Streams of server-sent events from the servers of an account's platform."""

import ssl
from typing import Final, Self
from urllib.parse import urlsplit

import anyio
import httpx2

from skerry.infra.http11 import HttpConnection
from skerry.net.connect import TargetRefusedError
from skerry.sdk.channel_host import AccountHttp

__all__ = ["AccountEvents", "EventsEndedError"]
DRAIN_SECONDS: Final = 0.25
"""Seconds of silence after which `drain` expects no further event."""
_PORTS: Final = {"http": 80, "https": 443}
_MAX_EVENT: Final = 4 * 1024 * 1024
_OK: Final = 200


class EventsEndedError(Exception):
    """The stream was not opened, broke, or ended. `status` is the HTTP status; 0 for none."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class AccountEvents:
    """An open stream of events. At most one task may read it."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self._unread = b""
        self._waiting: list[str] = []

    @classmethod
    async def open(cls, http: AccountHttp, url: str, seconds: float = 15.0) -> Self:
        """Returns the stream at `url`, under the network policy of the account's requests.

        Raises:
            EventsEndedError: the server cannot be reached, did not answer within `seconds`, or
                returned another status than 200.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        timeout = {"connect": seconds, "write": seconds}  # `receive` limits the silence
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        request = httpx2.Request("GET", url, headers=headers, extensions={"timeout": timeout})
        try:
            stream = await http.connect(host, port, seconds)
            if parts.scheme == "https":
                await stream.start_tls(ssl.create_default_context(), host, seconds)
            connection = HttpConnection(stream)
            with anyio.fail_after(seconds):
                head = await connection.request(request)
        except TimeoutError:
            raise EventsEndedError(f"{host} did not answer in {seconds:g} s.") from None
        except (TargetRefusedError, httpx2.HTTPError) as error:
            raise EventsEndedError(f"{host} cannot be reached: {error}") from error
        if head.status != _OK:
            connection.close()
            raise EventsEndedError(f"{host} answered {head.status}.", head.status)
        return cls(connection)

    async def receive(self, seconds: float) -> str:
        """Returns the data of the next event.

        Raises:
            EventsEndedError: the stream ended, or no byte, not even a comment, arrived for
                `seconds`.
        """
        while not self._waiting:
            await self._read(seconds)
        return self._waiting.pop(0)

    async def drain(self) -> list[str]:
        """Returns the events that still arrive; call it before the stream is closed."""
        try:
            while True:
                await self._read(DRAIN_SECONDS)
        except EventsEndedError:
            waiting, self._waiting = self._waiting, []
            return waiting

    async def _read(self, seconds: float) -> None:
        try:
            with anyio.fail_after(seconds):
                data = await self._connection.part()
        except TimeoutError:
            raise EventsEndedError(f"The server was silent for {seconds:g} s.") from None
        except httpx2.HTTPError as error:
            raise EventsEndedError(f"The stream of events broke: {error}") from error
        if data is None:
            raise EventsEndedError("The server ended the stream of events.")
        self._feed(data)

    def close(self) -> None:
        """Closes at once."""
        self._connection.close()

    def _feed(self, data: bytes) -> None:
        text = (self._unread + data).replace(b"\r\n", b"\n")
        *events, self._unread = text.split(b"\n\n")
        if len(self._unread) > _MAX_EVENT:
            raise EventsEndedError("An event is larger than 4 MiB.")
        for event in events:
            lines = event.decode("utf-8", "replace").split("\n")
            parts = [
                line[len("data:") :].removeprefix(" ") for line in lines if line.startswith("data:")
            ]
            if parts:
                self._waiting.append("\n".join(parts))
