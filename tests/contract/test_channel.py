"""The contract of `ports.channel.ChannelAdapter`. A new platform adds a row to ROWS.

A row gives a platform in which a test can write as a person and read what arrived: the real adapter
of a platform over a server of ours that plays it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

import anyio
import pytest

from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement
from skerry.ports.channel import ChannelAdapter, Inbox
from skerry.testing.channel import MemoryChannel, Platform


class Town(Protocol):
    """A platform with its people."""

    @property
    def adapter(self) -> ChannelAdapter:
        """Returns the adapter; a new one each time, as after a restart."""
        ...

    def say(self, text: str, peer: Peer, message_id: str) -> None:
        """Lets a person write."""
        ...

    def received(self) -> list[tuple[str, str]]:
        """Returns peer and text of what arrived there, in order."""
        ...

    def typed(self) -> list[str]:
        """Returns the peers that saw us writing."""
        ...


class Folder:
    """The platform in a folder."""

    def __init__(self, home: Path, kind: type[MemoryChannel] = MemoryChannel) -> None:
        self._platform = Platform(home / "platform")
        self._kind = kind

    @property
    def adapter(self) -> ChannelAdapter:
        return self._kind(self._platform)

    def say(self, text: str, peer: Peer, message_id: str) -> None:
        self._platform.say(text, peer=peer.id, message_id=message_id, kind=peer.kind.value)

    def received(self) -> list[tuple[str, str]]:
        return [(one.peer, one.text) for one in self._platform.received()]

    def typed(self) -> list[str]:
        return self._platform.typed()


Row = Callable[[Path], Town]
ROWS: Final[dict[str, Row]] = {"folder": Folder}
ALICE: Final = Peer(PeerKind.DIRECT, "alice")
TEAM: Final = Peer(PeerKind.GROUP, "team")


async def taken(adapter: ChannelAdapter, count: int) -> list[InboundMessage]:
    """Returns the first messages handed in; the last of them is not taken, but cancelled."""
    messages: list[InboundMessage] = []
    async with anyio.create_task_group() as tasks:

        async def inbox(message: InboundMessage) -> None:
            messages.append(message)
            if len(messages) == count:
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()

        with anyio.fail_after(60):
            await adapter.run(inbox)
    return messages


def part(adapter: ChannelAdapter, text: str, number: int = 0) -> OutboundPart:
    to = ReplyTo(adapter.channel, adapter.account, ALICE, "m1")
    return OutboundPart(1, RunId("r1"), 0, number, to, text)


async def names_itself_in_what_it_hands_in(town: Town) -> None:
    adapter = town.adapter
    assert adapter.channel
    assert adapter.account
    assert adapter.text_limit > 0
    town.say("hello", TEAM, "m1")
    (message,) = await taken(adapter, 1)
    assert (message.channel, message.account) == (adapter.channel, adapter.account)
    assert (message.text, message.peer, message.message_id) == ("hello", TEAM, "m1")


async def hands_in_everything_in_order(town: Town) -> None:
    for number in range(5):
        town.say(f"{number}", ALICE if number % 2 else TEAM, f"m{number}")
    messages = await taken(town.adapter, 5)
    assert [one.text for one in messages] == ["0", "1", "2", "3", "4"]
    assert len({one.message_id for one in messages}) == 5


async def acknowledges_nothing_that_was_not_taken(town: Town) -> None:
    for number in range(3):
        town.say(f"{number}", ALICE, f"m{number}")
    assert [one.text for one in await taken(town.adapter, 2)] == ["0", "1"]
    again = await taken(town.adapter, 1)
    assert [one.text for one in again] == ["1"], "a message that was not taken did not come again"


async def gives_what_was_acknowledged_no_second_time(town: Town) -> None:
    town.say("first", ALICE, "m0")
    town.say("second", ALICE, "m1")
    await taken(town.adapter, 2)
    assert [one.text for one in await taken(town.adapter, 1)] == ["second"]


async def delivers_a_part_before_it_returns(town: Town) -> None:
    adapter = town.adapter
    receipt = await adapter.send(part(adapter, "hello"))
    assert isinstance(receipt, Receipt)
    assert receipt.platform_ids
    await adapter.send(part(adapter, "more", 1))
    assert town.received() == [("alice", "hello"), ("alice", "more")]


async def settles_no_part_for_delivered_that_is_not_there(town: Town) -> None:
    adapter = town.adapter
    await adapter.send(part(adapter, "hello"))
    fresh = town.adapter
    assert await fresh.settle(part(fresh, "hello")) is not Settlement.ABSENT
    assert await fresh.settle(part(fresh, "never", 1)) is not Settlement.DELIVERED


async def shows_that_it_writes_to_the_peer_alone(town: Town) -> None:
    adapter = town.adapter
    await adapter.typing(part(adapter, "").to)
    assert town.received() == []
    assert set(town.typed()) <= {"alice"}


Clause = Callable[[Town], Awaitable[None]]
CONTRACT: Final[list[Clause]] = [
    names_itself_in_what_it_hands_in,
    hands_in_everything_in_order,
    acknowledges_nothing_that_was_not_taken,
    gives_what_was_acknowledged_no_second_time,
    delivers_a_part_before_it_returns,
    settles_no_part_for_delivered_that_is_not_there,
    shows_that_it_writes_to_the_peer_alone,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_an_adapter_keeps_the_contract(row: Row, clause: Clause, tmp_path: Path) -> None:
    await clause(row(tmp_path))


class Eager(MemoryChannel):
    """Acknowledges before the inbox has taken a message."""

    async def run(self, inbox: Inbox) -> None:
        async def late(message: InboundMessage) -> None:
            self.platform.acknowledge(self.platform.acknowledged() + 1)
            await inbox(message)

        await MemoryChannel.run(self, late)


class Sure(MemoryChannel):
    """Takes every part for delivered."""

    async def settle(self, part: OutboundPart) -> Settlement:
        del part
        return Settlement.DELIVERED


class Lazy(MemoryChannel):
    """Returns before the platform has the part."""

    async def send(self, part: OutboundPart) -> Receipt:
        return Receipt((part.nonce,))


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Eager, acknowledges_nothing_that_was_not_taken),
        (Sure, settles_no_part_for_delivered_that_is_not_there),
        (Lazy, delivers_a_part_before_it_returns),
    ],
)
async def test_an_adapter_with_a_defect_breaks_it(
    defect: type[MemoryChannel], clause: Clause, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError):
        await clause(Folder(tmp_path, defect))
