"""Registry of the admitted connections of devices."""

from typing import Final, Protocol

_REVOKED: Final = 1008


class Client(Protocol):
    """A connection, as nodes and device methods use it."""

    @property
    def id(self) -> str:
        """Returns the id of the connection."""
        ...

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Sends an event over the connection."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Closes the connection after the queued frames."""
        ...


class Clients:
    """Admitted connections with their devices and roles."""

    def __init__(self) -> None:
        self._devices: dict[Client, tuple[str, str]] = {}

    def join(self, client: Client, device_id: str, role: str) -> None:
        """Adds the connection of a device."""
        self._devices[client] = (device_id, role)

    def remove(self, client: Client) -> None:
        """Removes the connection."""
        self._devices.pop(client, None)

    def dismiss(
        self, device_id: str, reason: str, *, role: str | None = None, but: str = ""
    ) -> None:
        """Closes the connections of a device in one role or all roles, except the id `but`."""
        for client, (device, its_role) in tuple(self._devices.items()):
            if device == device_id and role in {None, its_role} and client.id != but:
                client.close(_REVOKED, reason)
