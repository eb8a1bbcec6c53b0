"""Who is connected."""

import platform
import socket

import anyio
import msgspec

from skerry import __version__
from skerry.infra.clock import Clock

_MOST = 200


class PresenceEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One client, or the gateway itself, as others see it."""

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


class Presence:
    """The gateway and its clients. `version` grows with every change."""

    def __init__(self, clock: Clock) -> None:
        self.version = 1
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
        """Add a client."""
        self._clients[connection_id] = entry
        self._change()

    def leave(self, connection_id: str) -> None:
        """Remove a client."""
        if self._clients.pop(connection_id, None) is not None:
            self._change()

    async def after(self, version: int) -> None:
        """Return when something has changed since `version`."""
        while self.version == version:
            await self._changed.wait()

    def entries(self) -> list[PresenceEntry]:
        """Return the gateway and at most 200 clients, the latest last."""
        return [self._self, *list(self._clients.values())[-_MOST:]]

    def _change(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()
