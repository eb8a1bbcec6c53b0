"""Presence of connected clients."""

import platform
import socket

import anyio
import msgspec
from msgspec import Struct

from skerry import __version__
from skerry.infra.clock import Clock

_MAX_ENTRIES = 200
_TEXT = 512


class PresenceEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One client, or the gateway itself, as other clients see it."""

    host: str
    ip: str
    version: str
    platform: str
    mode: str
    reason: str
    text: str
    ts: int
    device_family: str | None = None
    model_identifier: str | None = None
    instance_id: str | None = None
    roles: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    last_input_seconds: int | None = None
    tags: tuple[str, ...] | None = None


class PresenceUpdate(Struct, frozen=True):
    """Changes of its entry, sent by a client."""

    text: str
    reason: str | None = None
    last_input_seconds: int | None = None
    """Seconds since a person used the machine."""
    tags: tuple[str, ...] = ()


class Presence:
    """The gateway and its clients. `version` increases with each change."""

    def __init__(self, clock: Clock) -> None:
        self.version = 1
        self._clock = clock
        self._clients: dict[str, PresenceEntry] = {}
        self._changed = anyio.Event()
        host = socket.gethostname()
        self._self = PresenceEntry(
            host=host,
            ip="127.0.0.1",
            version=__version__,
            platform=f"{platform.system().lower()} {platform.release()}",
            mode="gateway",
            reason="self",
            text=f"Gateway: {host} · app {__version__} · mode gateway · reason self",
            ts=clock.now_ms(),
            device_family=platform.system(),
        )

    def join(self, connection_id: str, entry: PresenceEntry) -> None:
        """Adds a client."""
        self._clients[connection_id] = entry
        self._change()

    def update(self, connection_id: str, update: PresenceUpdate) -> None:
        """Changes the entry of a client."""
        entry = self._clients.get(connection_id)
        if entry is not None:
            self._clients[connection_id] = msgspec.structs.replace(
                entry,
                text=update.text[:_TEXT],
                reason=update.reason or entry.reason,
                last_input_seconds=update.last_input_seconds,
                tags=update.tags or None,
                ts=self._clock.now_ms(),
            )
            self._change()

    def remove(self, connection_id: str) -> None:
        """Removes a client."""
        if self._clients.pop(connection_id, None) is not None:
            self._change()

    async def after(self, version: int) -> None:
        """Waits for a change after `version`."""
        while self.version == version:
            await self._changed.wait()

    def entries(self) -> list[PresenceEntry]:
        """Returns the gateway and at most 200 clients, the newest last."""
        return [self._self, *list(self._clients.values())[-_MAX_ENTRIES:]]

    def _change(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()
