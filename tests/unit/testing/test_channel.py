"""The platform in a folder, and its adapter."""

from pathlib import Path

import anyio
import pytest

from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Settlement
from skerry.testing.channel import FakePlatform, MemoryChannel


@pytest.fixture
def platform(tmp_path: Path) -> FakePlatform:
    return FakePlatform(tmp_path / "platform")


def part(text: str, number: int = 0) -> OutboundPart:
    channel = MemoryChannel(FakePlatform(Path()))
    to = ReplyTo(channel.channel, channel.account, Peer(PeerKind.DIRECT, "alice"), "m1")
    return OutboundPart(1, RunId("r1"), 0, number, to, text)


async def handed_in(channel: MemoryChannel, count: int) -> list[InboundMessage]:
    """Returns the first messages that the adapter hands in; then stop it before it acknowledges."""
    taken: list[InboundMessage] = []
    enough = anyio.Event()

    async def inbox(message: InboundMessage) -> None:
        taken.append(message)
        if len(taken) == count:
            enough.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run, inbox)
        with anyio.fail_after(60):
            await enough.wait()
        tasks.cancel_scope.cancel()
    return taken


async def test_what_people_wrote_is_handed_in_in_order(platform: FakePlatform) -> None:
    platform.say("one", message_id="m1")
    platform.say("two", message_id="m2", peer="team", kind="group")
    first, second = await handed_in(MemoryChannel(platform), 2)
    assert (first.text, first.message_id, first.peer) == (
        "one",
        "m1",
        Peer(PeerKind.DIRECT, "alice"),
    )
    assert (second.text, second.message_id, second.peer) == (
        "two",
        "m2",
        Peer(PeerKind.GROUP, "team"),
    )


async def test_only_what_the_inbox_took_is_acknowledged_and_the_rest_comes_again(
    platform: FakePlatform,
) -> None:
    for number in (1, 2, 3):
        platform.say(f"{number}", message_id=f"m{number}")
    await handed_in(MemoryChannel(platform), 2)
    assert platform.acknowledged() == 1
    again = await handed_in(MemoryChannel(platform), 2)
    assert [message.text for message in again] == ["2", "3"]


async def test_a_sent_part_is_in_the_platforms_log(platform: FakePlatform) -> None:
    channel = MemoryChannel(platform)
    receipt = await channel.send(part("hello"))
    (message,) = platform.received()
    assert (message.peer, message.text, message.in_reply_to, message.nonce) == (
        "alice",
        "hello",
        "m1",
        "r1/0/0",
    )
    assert receipt.platform_ids == ("r1/0/0",)


async def test_it_can_say_what_arrived_or_what_the_test_wants(platform: FakePlatform) -> None:
    channel = MemoryChannel(platform)
    await channel.send(part("hello"))
    assert await channel.settle(part("hello")) is Settlement.DELIVERED
    assert await channel.settle(part("more", 1)) is Settlement.ABSENT
    blind = MemoryChannel(platform, settles=Settlement.UNKNOWN)
    assert await blind.settle(part("hello")) is Settlement.UNKNOWN


def test_a_line_that_was_cut_by_a_kill_is_not_there(platform: FakePlatform) -> None:
    platform.say("whole", message_id="m1")
    with (platform.folder / "inbox.jsonl").open("ab") as file:
        file.write(b'{"text": "ha')
    assert [line["text"] for line in platform.inbox()] == ["whole"]


def test_an_empty_platform_has_nothing(platform: FakePlatform) -> None:
    assert (platform.inbox(), platform.received(), platform.acknowledged()) == ([], [], 0)
