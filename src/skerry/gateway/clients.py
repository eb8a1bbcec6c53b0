"""The connections that are let in, so that one can be found again and closed."""

from typing import Final, Protocol

_REVOKED: Final = 1008


class Client(Protocol):
    """One connection, as others may use it."""

    @property
    def id(self) -> str:
        """Returns the id of the connection."""
        ...

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Sends it an event."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Closes it, behind what it was sent before."""
        ...


class Clients:
    """Every connection that is let in, and the device and role of each that has one."""

    def __init__(self) -> None:
        self._devices: dict[Client, tuple[str, str]] = {}

    def join(self, client: Client, device_id: str, role: str) -> None:
        """Remembers the connection of a device."""
        self._devices[client] = (device_id, role)

    def leave(self, client: Client) -> None:
        """Forgets the connection."""
        self._devices.pop(client, None)

    def dismiss(
        self, device_id: str, reason: str, *, role: str | None = None, but: str = ""
    ) -> None:
        """Closes the connections of a device, in one role or in all, but the one with id `but`."""
        for client, (device, its_role) in tuple(self._devices.items()):
            if device == device_id and role in {None, its_role} and client.id != but:
                client.close(_REVOKED, reason)
