"""The port of signal-cli and of the REST bridge."""

from typing import Final, Protocol

from msgspec import Struct

from skerry.sdk.channels import OutboundPart, Peer

SILENT_SECONDS: Final = 75.0
"""Seconds of silence after which a stream counts as broken: the daemon sends something every 15,
the bridge every 54."""


class SignalQuote(Struct, frozen=True):
    """A message that is quoted: its time, its author, and its text if stored."""

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
        """Returns the pending events; call it before closing a stream."""
        ...

    def close(self) -> None:
        """Closes at once."""
        ...


class Bridge(Protocol):
    """The program that holds the account."""

    async def check(self) -> str:
        """Returns the name and version of the program. Raises `PlatformError`."""
        ...

    async def events(self) -> Events:
        """Opens the stream of events."""
        ...

    async def send(
        self, part: OutboundPart, quoted: SignalQuote | None, file: SignalFile | None
    ) -> int:
        """Sends a part; returns its time, which is its id. Raises `PlatformError`."""
        ...

    async def typing(self, peer: Peer) -> None:
        """Shows the typing indicator for some seconds. Raises `PlatformError`."""
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
