"""Rooms: a room of two is a direct chat only while nobody else can read it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from skerry.channels.matrix.api import MatrixApi
from skerry.channels.matrix.crypto import NoCrypto
from skerry.channels.matrix.rooms import RoomReader
from skerry.channels.matrix.wire import Timeline
from skerry.model.ids import AccountId
from skerry.model.inbound import PeerKind
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import MemoryVault

ME, ALICE, EVE = "@me:local", "@alice:local", "@eve:local"
ROOM = "!r:local"


def state(kind: str, name: str, value: str, key: str = "") -> dict[str, Any]:
    return {"type": kind, "sender": EVE, "state_key": key, "content": {name: value}}


def rules(join: str = "invite", seen: str = "shared", eve: str = "leave") -> list[dict[str, Any]]:
    return [
        state("m.room.join_rules", "join_rule", join),
        state("m.room.history_visibility", "history_visibility", seen),
        state("m.room.member", "membership", eve, EVE),
    ]


class Homeserver(MatrixApi):
    """Answers about one room with two members."""

    def __init__(self, state: Any) -> None:
        super().__init__("http://local", "token")
        self.state = state
        self.asked = 0

    async def get(
        self, route: str, query: Mapping[str, str] | None = None, *, wait: float = 4.0
    ) -> bytes:
        del query, wait
        if route.endswith("/joined_members"):
            return msgspec.json.encode({"joined": {ME: {}, ALICE: {}}})
        if route.endswith("/state"):
            self.asked += 1
            if isinstance(self.state, PlatformError):
                raise self.state
            return msgspec.json.encode(self.state)
        raise PlatformError("no name", status=404)


def reader(server: Homeserver) -> RoomReader:
    return RoomReader(AccountId("default"), server, MemoryVault(), NoCrypto())


@pytest.mark.abuse(121)
@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (rules(), PeerKind.DIRECT),
        (rules("knock"), PeerKind.DIRECT),
        ([], PeerKind.DIRECT),
        (rules("public"), PeerKind.GROUP),
        (rules("restricted"), PeerKind.GROUP),
        (rules("unheard-of"), PeerKind.GROUP),
        (rules(seen="world_readable"), PeerKind.GROUP),
        (rules(eve="invite"), PeerKind.GROUP),
        ({"no": "list"}, PeerKind.GROUP),
        (PlatformError("too many bytes", status=200), PeerKind.GROUP),
    ],
)
async def test_a_room_of_two_that_others_can_read_is_no_direct_chat(
    state: Any, kind: PeerKind
) -> None:
    assert (await reader(Homeserver(state)).get(ROOM)).peer.kind is kind


async def test_a_change_of_who_can_read_a_room_counts_at_once() -> None:
    server = Homeserver(rules())
    rooms = reader(server)
    for _ in range(2):
        assert (await rooms.get(ROOM)).peer.kind is PeerKind.DIRECT
        rooms.forget(ROOM)  # as after each message
    assert server.asked == 1
    server.state = rules("public")
    changed = Timeline((msgspec.Raw(msgspec.json.encode(server.state[0])),))
    await rooms.timed(ROOM, changed, "s1")
    assert (await rooms.get(ROOM)).peer.kind is PeerKind.GROUP


async def test_a_room_that_the_server_does_not_show_is_an_error() -> None:
    with pytest.raises(PlatformError):
        await reader(Homeserver(PlatformError("forbidden", status=403))).get(ROOM)
