"""Undecryptable messages: kept until their key arrives, announced once, shown in the state."""

from collections.abc import AsyncIterator

import pytest

from skerry.channels.matrix.undecrypted import GRACE_MS, KEPT_MS, QUIET_MS, UndecryptedEvents
from skerry.model.ids import AccountId
from skerry.sdk.channel_host import MemoryVault
from skerry.testing.clock import FakeClock
from tests.support.key_server import BOT, DEVICE, ROOM, Device, KeyServer, key_server, sync


class Desk:
    """The waiting messages of an account, and the notices to its people."""

    def __init__(self, server: KeyServer) -> None:
        self.vault, self.clock = MemoryVault(), FakeClock()
        self.machine = server.machine(self.vault, self.clock)
        self.alice = Device(server)
        self.told: list[tuple[str, str]] = []
        self.begin()

    def begin(self) -> None:
        """Begins a new process."""
        self.unread = UndecryptedEvents(AccountId("default"), self.vault, self.machine, self.clock)

    async def tell(self) -> list[tuple[str, str]]:
        """Returns the rooms that are notified now, each with the event."""

        async def notify(room_id: str, _: str, about: str) -> None:
            self.told.append((room_id, about))

        self.told = []
        await self.unread.tell(notify)
        return self.told


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with key_server() as server:
        desk = Desk(server)
        await desk.machine.open(BOT, DEVICE)
        yield desk


async def test_a_message_is_read_when_its_key_arrives_even_in_a_later_process(desk: Desk) -> None:
    key = desk.alice.room_key()
    assert await desk.unread.read(ROOM, desk.alice.say("late", "$1")) is None
    assert await desk.unread.arrived(frozenset()) == []
    desk.begin()
    await desk.machine.take(sync(key))
    ((room, event),) = await desk.unread.arrived(frozenset())
    assert (room, event.event_id, event.content["body"]) == (ROOM, "$1", "late")
    desk.begin()
    assert len(await desk.unread.arrived(frozenset())) == 1, "it was lost before it was taken"
    await desk.unread.drop("$1")
    desk.begin()
    assert await desk.unread.arrived(frozenset()) == []


async def test_only_the_messages_of_an_arrived_session_are_tried(desk: Desk) -> None:
    assert await desk.unread.arrived(frozenset()) == []
    key = desk.alice.room_key()
    await desk.unread.read(ROOM, desk.alice.say("late", "$1"))
    await desk.machine.take(sync(key))
    assert await desk.unread.arrived(frozenset({"other"})) == []
    assert len(await desk.unread.arrived(frozenset({desk.alice.group.session_id}))) == 1


async def test_a_person_is_told_once_in_a_while(desk: Desk) -> None:
    await desk.unread.read(ROOM, desk.alice.say("one", "$1"))
    await desk.unread.read(ROOM, desk.alice.say("two", "$2"))
    assert await desk.tell() == []
    assert desk.unread.notice == ("", "")
    desk.clock.advance(GRACE_MS)
    assert await desk.tell() == [(ROOM, "$1")]
    message, remedy = desk.unread.notice
    assert message.startswith("2 encrypted messages could not be read")
    assert "@alice:local" in message
    assert "/discardsession" in remedy
    await desk.unread.read(ROOM, desk.alice.say("x", "$3", session_id="another"))
    desk.clock.advance(GRACE_MS)
    assert await desk.tell() == []
    desk.clock.advance(QUIET_MS)
    await desk.unread.read(ROOM, desk.alice.say("x", "$4", session_id="a third"))
    desk.clock.advance(GRACE_MS)
    assert await desk.tell() == [(ROOM, "$4")]
    desk.begin()
    assert await desk.tell() == []
    assert desk.unread.notice[0].startswith("4 ")
    desk.clock.advance(KEPT_MS)
    await desk.tell()
    assert desk.unread.notice == ("", "")


async def test_a_message_that_nothing_can_open_is_named_and_not_kept(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.machine.take(sync(desk.alice.room_key()))
    broken = desk.alice.say("x", "$1", ciphertext="AwgA")
    assert await desk.unread.read(ROOM, broken) is None
    assert "$1 of @alice:local" in caplog.text
    assert desk.unread.notice[0].startswith("1 encrypted messages could not be read")
    desk.clock.advance(GRACE_MS)
    assert await desk.tell() == []
