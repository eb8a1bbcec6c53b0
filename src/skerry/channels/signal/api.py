"""Requests to signal-cli or to the REST bridge, and their errors; the part that both share."""

from typing import Final, Protocol

from msgspec import Struct

from skerry.sdk.channels import OutboundPart, Peer

SILENT_SECONDS: Final = 75.0
"""Seconds without any sign, after which a stream counts as broken: the daemon gives one every 15,
the bridge every 54."""


class SignalQuote(Struct, frozen=True):
    """A message that is quoted: its time, its author, and its text as far as it is known."""

    timestamp: int
    author: str
    text: str


class SignalFile(Struct, frozen=True):
    """A file that is sent."""

    name: str
    mime: str
    data: bytes
    voice: bool = False


class Events(Protocol):
    """An open stream of events."""

    async def receive(self, seconds: float) -> str:
        """Returns the next event as JSON.

        Raises:
            EventsEndedError | SocketEndedError: it ended, or nothing arrived for `seconds`.
        """
        ...

    async def drain(self) -> list[str]:
        """Returns the events that are on their way; use it before a stream is given up."""
        ...

    def close(self) -> None:
        """Closes at once."""
        ...


class Bridge(Protocol):
    """The program that has the account."""

    async def check(self) -> str:
        """Returns the name and version of the program. Raises `PlatformError`."""
        ...

    async def events(self) -> Events:
        """Opens the stream of events."""
        ...

    async def send(
        self, part: OutboundPart, quoted: SignalQuote | None, file: SignalFile | None
    ) -> int:
        """Sends a part; returns the time by which Signal knows it. Raises `PlatformError`."""
        ...

    async def typing(self, peer: Peer) -> None:
        """Shows for some seconds that something is written. Raises `PlatformError`."""
        ...

    async def react(self, peer: Peer, target: tuple[int, str], emoji: str, *, remove: bool) -> None:
        """Sets or removes a reaction to the message of that time and author.

        Raises:
            PlatformError: it was not carried out.
        """
        ...

    async def attachment(self, peer: Peer, file_id: str, limit: int) -> bytes | None:
        """Returns a file; None where it has more than `limit` bytes. Raises `PlatformError`."""
        ...
