"""Encryption of an account: keys, what arrives between devices, and events of rooms, both ways."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from vodozemac import GroupSession

from skerry.channels.matrix.crypto import EncryptionError, MissingRoomKeyError
from skerry.channels.matrix.encryption.crypto_store import INBOUND, MAX_RECORDS, inbound_of
from skerry.channels.matrix.encryption.machine import CryptoMachine
from skerry.channels.matrix.encryption.signing import is_signed
from skerry.sdk.channel_host import MemoryVault
from skerry.testing.clock import FakeClock
from tests.support.key_server import BOT, DEVICE, ROOM, Device, KeyServer, key_server, sync

STATE = {"algorithm": "m.megolm.v1.aes-sha2"}
HOUR, WEEK = 3_600_000, 604_800_000


class Bench:
    """The bot's encryption and its homeserver."""

    def __init__(self, server: KeyServer) -> None:
        self.server = server
        self.vault = MemoryVault()
        self.clock = FakeClock()
        self.machine = server.machine(self.vault, self.clock)

    async def open(self, device: str = DEVICE) -> CryptoMachine:
        """Starts a new process with the stored state of the last one."""
        self.server.device = device
        self.machine = self.server.machine(self.vault, self.clock)
        await self.machine.open(BOT, device)
        return self.machine

    async def write(self, text: str, *people: str, room: str = ROOM, **state: object) -> Any:
        """Returns the content of an encrypted message to people."""
        content = {"msgtype": "m.text", "body": text}
        members = (BOT, *people)
        return await self.machine.encrypt(room, members, STATE | state, "m.room.message", content)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with key_server() as server:
        bench = Bench(server)
        await bench.open()
        yield bench


async def test_the_keys_of_a_device_are_signed_and_made_once(bench: Bench) -> None:
    keys = bench.server.devices[BOT][DEVICE]
    ed = keys["keys"][f"ed25519:{DEVICE}"]
    assert is_signed(keys, BOT, DEVICE, ed)
    assert len(bench.server.one_time[BOT, DEVICE]) == 50
    (fallback,) = bench.server.fallback[BOT, DEVICE].values()
    assert fallback["fallback"] is True
    assert is_signed(fallback, BOT, DEVICE, ed)
    assert ed in bench.machine.about.replace(" ", "")
    uploads = len(bench.server.uploads)
    await bench.open()
    assert ed in bench.machine.about.replace(" ", "")
    assert len(bench.server.uploads) == uploads


async def test_used_up_keys_are_replaced_and_none_is_uploaded_twice(bench: Bench) -> None:
    uploads = len(bench.server.uploads)
    await bench.machine.take(sync(count=25))
    await bench.machine.take(sync(count=None))
    assert len(bench.server.uploads) == uploads
    bench.server.failing = {"upload"}
    await bench.machine.take(sync(count=24))
    bench.server.failing = set()
    bench.server.one_time[BOT, DEVICE].clear()
    await bench.machine.take(sync(count=0, device_unused_fallback_key_types=[]))
    assert len(bench.server.one_time[BOT, DEVICE]) == 50
    assert len(bench.server.fallback[BOT, DEVICE]) == 2


async def test_a_room_key_opens_its_messages_over_a_new_process(bench: Bench) -> None:
    alice = Device(bench.server)
    arrived = await bench.machine.take(sync(alice.room_key()))
    assert arrived == {alice.group.session_id}
    event = alice.say("hello", "$1")
    opened = await bench.machine.decrypt(ROOM, event)
    assert (opened.type, opened.content["body"], opened.event_id) == (
        "m.room.message",
        "hello",
        "$1",
    )
    await bench.open()
    assert (await bench.machine.decrypt(ROOM, alice.say("more", "$2"))).content["body"] == "more"


async def test_what_a_kill_makes_the_server_repeat_is_taken_once(bench: Bench) -> None:
    alice = Device(bench.server)
    first, second = alice.room_key(), alice.sealed("m.dummy", {})
    await bench.machine.take(sync(first))
    bench.server.sent.clear()
    await bench.open()
    assert await bench.machine.take(sync(first, second)) == frozenset()
    assert not bench.server.sent, "a new session was begun for a message that was taken"
    assert (await bench.machine.decrypt(ROOM, alice.say("hi", "$1"))).content["body"] == "hi"


async def test_a_repeated_place_is_refused_and_the_same_event_is_not(bench: Bench) -> None:
    alice = Device(bench.server)
    await bench.machine.take(sync(alice.room_key()))
    event = alice.say("pay", "$1")
    await bench.machine.decrypt(ROOM, event)
    await bench.open()
    assert (await bench.machine.decrypt(ROOM, event)).content["body"] == "pay"
    repeated = type(event)(event.type, event.sender, "$2", 9, event.content)
    with pytest.raises(EncryptionError, match=r"repeats the event \$1"):
        await bench.machine.decrypt(ROOM, repeated)
    with pytest.raises(EncryptionError, match=r"repeats the event \$1"):
        await bench.machine.decrypt(ROOM, repeated, note=False)


async def test_an_event_of_another_room_or_sender_is_refused(bench: Bench) -> None:
    alice = Device(bench.server)
    other = "!other:local"
    await bench.machine.take(sync(alice.room_key(), alice.room_key(other)))
    moved = alice.say("yes", "$1", ROOM)
    with pytest.raises(EncryptionError, match="another room"):
        await bench.machine.decrypt(other, moved)
    claimed = type(moved)(moved.type, "@mallory:local", "$2", 9, moved.content)
    with pytest.raises(MissingRoomKeyError, match="of @mallory:local is not here"):
        await bench.machine.decrypt(ROOM, claimed)


@pytest.mark.parametrize(
    "changed",
    [
        {"algorithm": "m.other"},
        {"ciphertext": "AwgA"},
        {"ciphertext": 7},
        {"ciphertext": "é"},
        {"algorithm": None},
    ],
    ids=str,
)
async def test_a_malformed_event_is_refused(bench: Bench, changed: dict[str, Any]) -> None:
    alice = Device(bench.server)
    await bench.machine.take(sync(alice.room_key()))
    with pytest.raises(EncryptionError) as refused:
        await bench.machine.decrypt(ROOM, alice.say("x", "$1", **changed))
    assert not isinstance(refused.value, MissingRoomKeyError)


async def test_a_message_before_its_key_waits_for_it(bench: Bench) -> None:
    alice = Device(bench.server)
    early = alice.say("early", "$1")
    with pytest.raises(MissingRoomKeyError) as locked:
        await bench.machine.decrypt(ROOM, early)
    assert locked.value.session_id == alice.group.session_id
    await bench.machine.take(sync(alice.room_key()))
    with pytest.raises(MissingRoomKeyError, match="before the key"):
        await bench.machine.decrypt(ROOM, early)


@pytest.mark.parametrize(
    "changed",
    [
        {"sender": "@mallory:local"},
        {"recipient": "@mallory:local"},
        {"recipient_keys": {"ed25519": "x"}},
        {"keys": {"ed25519": "x"}},
        {"keys": {}},
        {"content": {}},
        {"content": {"session_key": "x"}},
    ],
    ids=str,
)
async def test_a_key_that_is_not_what_it_says_opens_nothing(
    bench: Bench, changed: dict[str, Any]
) -> None:
    alice = Device(bench.server)
    content = {
        "algorithm": "m.megolm.v1.aes-sha2",
        "room_id": ROOM,
        "session_id": alice.group.session_id,
        "session_key": alice.group.session_key.to_base64(),
    }
    await bench.machine.take(sync(alice.sealed("m.room_key", content, **changed)))
    with pytest.raises(MissingRoomKeyError):
        await bench.machine.decrypt(ROOM, alice.say("x", "$1"))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "m.room.encrypted", "sender": "@alice:local", "content": {}},
        {"type": "m.room.encrypted", "sender": "@alice:local", "content": {"algorithm": 7}},
        {"type": "m.room.encrypted", "content": [1]},
        {"type": "m.room_key", "sender": "@alice:local", "content": {"session_key": "x"}},
        {"sender": "@alice:local"},
        7,
    ],
    ids=str,
)
async def test_what_is_malformed_between_devices_holds_nothing_back(
    bench: Bench, event: Any
) -> None:
    alice = Device(bench.server)
    await bench.machine.take(sync(event, alice.room_key()))
    assert (await bench.machine.decrypt(ROOM, alice.say("hi", "$1"))).content["body"] == "hi"


@pytest.mark.abuse(108)
@pytest.mark.parametrize("value", [b"[" * 2000 + b"]" * 2000, b'"\xff"'], ids=["deep", "no UTF-8"])
async def test_no_encrypted_json_stops_the_account(bench: Bench, value: bytes) -> None:
    alice, mallory = Device(bench.server), Device(bench.server, "@mallory:local")
    hostile = mallory.sealed_bytes(
        b'{"type":"m.dummy","sender":"@mallory:local","recipient":"@bot:local","keys":{},'
        b'"recipient_keys":{},"content":{"x":%b}}' % value
    )
    await bench.machine.take(sync(hostile, alice.room_key()))
    said = b'{"type":"m.room.message","room_id":"%b","content":{"x":%b}}'
    event = alice.say_bytes(said % (ROOM.encode(), value), "$1")
    with pytest.raises(EncryptionError) as refused:
        await bench.machine.decrypt(ROOM, event)
    assert not isinstance(refused.value, MissingRoomKeyError)
    assert (await bench.machine.decrypt(ROOM, alice.say("hi", "$2"))).content["body"] == "hi"


async def test_a_session_of_another_device_is_not_replaced(bench: Bench) -> None:
    alice, mallory = Device(bench.server), Device(bench.server, "@mallory:local")
    await bench.machine.take(sync(alice.room_key()))
    mallory.group = alice.group
    await bench.machine.take(sync(mallory.room_key()))
    desk = Device(bench.server, name="DESK")
    desk.group = alice.group
    assert await bench.machine.take(sync(desk.room_key())) == frozenset()
    assert (await bench.machine.decrypt(ROOM, alice.say("hi", "$1"))).content["body"] == "hi"


async def test_nobody_pushes_out_the_sessions_of_another(bench: Bench) -> None:
    alice, mallory = Device(bench.server), Device(bench.server, "@mallory:local")
    await bench.machine.take(sync(alice.room_key()))
    first = mallory.group
    await bench.machine.take(sync(mallory.room_key()))
    for _ in range(MAX_RECORDS[INBOUND] // 100):
        keys = []
        for _ in range(100):
            mallory.group = GroupSession()
            keys.append(mallory.room_key())
        await bench.machine.take(sync(*keys))
    assert len(await bench.vault.every(inbound_of(mallory.user))) == MAX_RECORDS[INBOUND]
    assert (await bench.machine.decrypt(ROOM, alice.say("hi", "$1"))).content["body"] == "hi"
    mallory.group = first
    with pytest.raises(MissingRoomKeyError):
        await bench.machine.decrypt(ROOM, mallory.say("hi", "$2"))


async def test_the_keys_of_a_device_that_were_seen_first_count(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    alice = Device(bench.server)
    await bench.machine.take(sync(alice.room_key()))
    other = Device(bench.server)  # under the same name, as a homeserver could
    assert await bench.machine.take(sync(other.room_key())) == frozenset()
    assert "has other keys than before" in caplog.text
    await bench.write("secret", alice.user)
    assert not bench.server.sent


async def test_a_broken_session_is_reset_once_an_hour(bench: Bench) -> None:
    alice = Device(bench.server)
    await bench.machine.take(sync(alice.room_key()))
    alice.publish()
    for hours in (0, 0, 1):
        bench.clock.advance(hours * HOUR)
        broken = alice.sealed("m.dummy", {})
        (part,) = broken["content"]["ciphertext"].values()
        part["body"] = part["body"][:-8] + "AAAAAAAA"
        await bench.machine.take(sync(broken))
    assert [kind for kind, _ in alice.take()] == ["m.dummy", "m.dummy"]
    assert await bench.machine.take(sync(alice.room_key("!other:local")))


async def test_messages_reach_every_device_once_and_are_numbered(bench: Bench) -> None:
    phone, desk = Device(bench.server), Device(bench.server, name="DESK")
    first = await bench.write("one", phone.user)
    await bench.open()
    second = await bench.write("two", phone.user)
    assert first["session_id"] == second["session_id"]
    for device in (phone, desk):
        assert [kind for kind, _ in device.take()] == ["m.room_key"]
        assert device.read(first) == ({"msgtype": "m.text", "body": "one"}, 0)
        assert device.read(second) == ({"msgtype": "m.text", "body": "two"}, 1)


async def test_a_message_that_was_not_sent_uses_its_place_up(bench: Bench) -> None:
    alice = Device(bench.server)
    await bench.write("lost", alice.user)
    await bench.open()
    again = await bench.write("lost", alice.user)
    alice.take()
    assert alice.read(again)[1] == 1


async def test_what_the_account_wrote_can_be_read_again(bench: Bench) -> None:
    sealed = await bench.write("mine", Device(bench.server).user)
    event = Device(bench.server, "@x:local").say("", "$1")
    mine = type(event)("m.room.encrypted", BOT, "$9", 5, sealed)
    await bench.open()
    assert (await bench.machine.decrypt(ROOM, mine, note=False)).content["body"] == "mine"


async def test_a_session_ends_after_a_hundred_messages_a_week_or_sooner(bench: Bench) -> None:
    alice = Device(bench.server)
    sessions = [(await bench.write(f"{number}", alice.user))["session_id"] for number in range(101)]
    assert len(set(sessions[:100])) == 1
    assert sessions[100] != sessions[0]
    bench.clock.advance(WEEK - 1)
    assert (await bench.write("x", alice.user))["session_id"] == sessions[100]
    bench.clock.advance(1)
    last = (await bench.write("x", alice.user))["session_id"]
    assert last != sessions[100]
    assert (await bench.write("x", alice.user, rotation_period_msgs=1))["session_id"] != last


async def test_who_left_or_logged_out_reads_nothing_more(bench: Bench) -> None:
    alice, bob = Device(bench.server), Device(bench.server, "@bob:local")
    desk = Device(bench.server, name="DESK")
    both = (await bench.write("one", alice.user, bob.user))["session_id"]
    without_bob = (await bench.write("two", alice.user))["session_id"]
    assert without_bob != both
    del bench.server.devices[alice.user]["DESK"]
    assert (await bench.write("three", alice.user))["session_id"] == without_bob
    await bench.machine.take(sync(device_lists={"changed": [alice.user]}))
    alone = await bench.write("four", alice.user)
    assert alone["session_id"] != without_bob
    for device, count in ((alice, 3), (bob, 1), (desk, 2)):
        assert len(device.take()) == count
    assert alone["session_id"] not in bob.inbound
    assert alone["session_id"] not in desk.inbound


async def test_a_device_without_keys_is_left_out_and_asked_again_later(bench: Bench) -> None:
    alice, bob = Device(bench.server), Device(bench.server, "@bob:local")
    bob.publish(0)
    await bench.write("one", alice.user, bob.user)
    assert not bob.take()
    bob.publish()
    await bench.write("two", alice.user, bob.user)
    assert not bob.take()
    bench.clock.advance(HOUR)
    three = await bench.write("three", alice.user, bob.user)
    bob.take()
    assert bob.read(three)[0]["body"] == "three"
    assert len(alice.take()) == 1


async def test_two_devices_with_one_key_never_share_a_message_key(bench: Bench) -> None:
    alice = Device(bench.server)
    thief = Device(bench.server, "@mallory:local", "THIEF")
    thief.curve = alice.curve
    thief.publish()
    await bench.write("one", alice.user)
    await bench.write("two", alice.user, thief.user)
    bodies = [row[2]["ciphertext"][alice.curve]["body"] for row in bench.server.sent]
    assert len(bodies) == 2
    alice.take()
    session = alice.session
    assert session is not None
    (stolen,) = bench.server.sent
    assert stolen[0] == thief.user
    with pytest.raises(AssertionError):  # it is for the signing key of the other
        alice._opened(stolen[2])


async def test_a_device_whose_keys_are_lost_is_not_used(bench: Bench) -> None:
    alice = Device(bench.server)
    bench.vault = MemoryVault()
    await bench.open()
    assert "are lost" in bench.machine.problem
    assert "accessToken" in bench.machine.remedy
    with pytest.raises(EncryptionError, match="accessToken"):
        await bench.write("one", alice.user)
    await bench.open("NEWDEV")
    assert not bench.machine.problem
    await bench.write("two", alice.user)
    assert [kind for kind, _ in alice.take()] == ["m.room_key"]


async def test_a_token_without_a_device_encrypts_nothing(bench: Bench) -> None:
    await bench.machine.open(BOT, "")
    assert "no device" in bench.machine.notice[0]
    assert await bench.machine.take(sync(Device(bench.server).room_key())) == frozenset()


async def test_an_unknown_encryption_of_a_room_is_refused(bench: Bench) -> None:
    with pytest.raises(EncryptionError, match=r"m\.next"):
        await bench.write("one", algorithm="m.next")
    with pytest.raises(EncryptionError, match="unknown"):
        await bench.write("one", algorithm=7)
