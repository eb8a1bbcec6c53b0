"""Clients that receive the `chat` events of single conversations, such as nodes."""

from typing import Final, Protocol

from msgspec import Struct, field


class ChatFollower(Protocol):
    """A client that receives events."""

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Queues the frame of an event."""
        ...


NOBODY: Final[frozenset[ChatFollower]] = frozenset()
_Key = tuple[int, str]


class Followers(Struct):
    """Clients by the version of their protocol and by session key."""

    clients: dict[_Key, set[ChatFollower]] = field(default_factory=dict[_Key, set[ChatFollower]])
    """A plain dictionary, so that an event without followers costs one look-up."""

    def add(self, client: ChatFollower, protocol: int, key: str) -> None:
        """Sends the client the `chat` events of a conversation."""
        self.clients.setdefault((protocol, key), set()).add(client)

    def drop(self, client: ChatFollower, protocol: int, key: str) -> None:
        """Ends `add` for one conversation."""
        clients = self.clients.get((protocol, key))
        if clients is not None:
            clients.discard(client)
            if not clients:
                del self.clients[protocol, key]

    def remove(self, client: ChatFollower) -> None:
        """Ends `add` for all conversations."""
        for protocol, key in tuple(self.clients):
            self.drop(client, protocol, key)
