"""Nodes: connected machines that run commands, and their running commands."""

import secrets
from typing import Final
from uuid import uuid4

import anyio
from msgspec import Struct, field

from skerry.gateway import frames
from skerry.gateway.clients import Client
from skerry.gateway.frames import Json

MAX_INVOCATIONS: Final = 256
"""Limit of running commands of one node."""
_SECRET_BYTES: Final = 32


def _new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


class Invocation(Struct):
    """A running command of a node."""

    done: anyio.Event = field(default_factory=anyio.Event)
    answer: dict[str, Json] | None = None
    """Response of the node; None when it disconnected."""

    def end(self, answer: dict[str, Json] | None) -> None:
        """Sets the response and wakes the callers."""
        self.answer = answer
        self.done.set()


class ConnectedNode(Struct):
    """A connected node."""

    node_id: str
    """Id of its device."""
    client: Client
    about: dict[str, Json]
    """Description that it sent in `connect`."""
    commands: tuple[str, ...]
    connected_at: int
    host: str = ""
    """Name and port by which it reached this gateway."""
    secret: bytes = field(default_factory=_new_secret)
    """Random bytes of this connection, from which addresses for the node only are derived."""
    inventory: dict[str, Json] = field(default_factory=dict)
    """Inventory that it sent later: skills, plugin tools, runners."""
    invocations: dict[str, Invocation] = field(default_factory=dict)

    def begin(self) -> tuple[str, Invocation]:
        """Adds a command; returns its id and the command."""
        name = str(uuid4())
        invocation = self.invocations[name] = Invocation()
        return name, invocation

    def send(self, event: str, payload: Json) -> None:
        """Sends an event to the node."""
        self.client.event(frames.event(event, payload), droppable=False)


class Nodes:
    """The connected nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, ConnectedNode] = {}

    def join(self, node: ConnectedNode) -> None:
        """Adds a node, and closes an older connection of the same device."""
        before = self._nodes.get(node.node_id)
        self._nodes[node.node_id] = node
        if before is not None:
            self._abandon(before)
            before.client.close(1008, "replaced by a newer connection")

    def remove(self, client: Client) -> None:
        """Removes the node of a connection; its commands end without a result."""
        for node in tuple(self._nodes.values()):
            if node.client is client:
                del self._nodes[node.node_id]
                self._abandon(node)

    def find(self, node_id: str) -> ConnectedNode | None:
        """Returns the connected node of a device; None without one."""
        return self._nodes.get(node_id)

    def of(self, connection_id: str) -> ConnectedNode | None:
        """Returns the node of a connection; None without one."""
        return next(
            (node for node in self._nodes.values() if node.client.id == connection_id), None
        )

    def all(self) -> list[ConnectedNode]:
        """Returns all connected nodes."""
        return list(self._nodes.values())

    @staticmethod
    def _abandon(node: ConnectedNode) -> None:
        for invocation in node.invocations.values():
            invocation.end(None)
