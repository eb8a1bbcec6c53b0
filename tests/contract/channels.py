"""Clauses of the contract of channel adapters, and the test interface of a platform."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import anyio
import pytest

from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage, Peer, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ChannelAdapter, capabilities


class Town(Protocol):
    """A platform with its people."""

    alice: Peer
    team: Peer

    @property
    def adapter(self) -> ChannelAdapter:
        """Returns the adapter; a new one each time, as after a restart."""
        ...

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        """Lets a person write; returns the message's id, empty where the platform has none."""
        ...

    def received(self) -> list[tuple[str, str]]:
        """Returns peer and text of what arrived there, in order."""
        ...

    def typed(self) -> list[str]:
        """Returns the peers that saw us writing."""
        ...


@runtime_checkable
class Connects(Protocol):
    """A town whose adapters send over the connection by which they receive."""

    def at_work(self, adapter: ChannelAdapter) -> AbstractAsyncContextManager[None]:
        """Lets the adapter receive while the block is on."""
        ...


class TroubledTown(Town, Protocol):
    """A platform over a server of ours, which can fail in the ways of real ones."""

    def babble(self) -> None:
        """Sends an event of an unknown kind, one that is malformed, and one without content."""
        ...

    def repeat(self) -> None:
        """Sends the last event of a person again, as platforms do after a lost acknowledgement."""
        ...

    def disconnect(self) -> None:
        """Fails the next attempts to receive: refusal, an answer cut off, garbage."""
        ...

    def limit(self, seconds: int) -> None:
        """Refuses the next message for its rate limit."""
        ...

    def refuse(self) -> None:
        """Refuses the next message for good."""
        ...

    def swallow(self) -> None:
        """Takes the next message and cuts the connection before it answers."""
        ...


@asynccontextmanager
async def at_work(town: Town, adapter: ChannelAdapter) -> AsyncGenerator[None]:
    """Lets the adapter do what it needs before it can send; most need nothing."""
    if isinstance(town, Connects):
        async with town.at_work(adapter):
            yield
    else:
        yield


Row = Callable[[Path], AbstractAsyncContextManager[Town]]
TroubledRow = Callable[[Path], AbstractAsyncContextManager[TroubledTown]]


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


def part(adapter: ChannelAdapter, to: Peer, text: str, number: int = 0) -> OutboundPart:
    address = ReplyTo(adapter.channel, adapter.account, to, "1")
    return OutboundPart(1, RunId("r1"), 0, number, address, text)


async def names_itself_in_what_it_hands_in(town: Town) -> None:
    adapter = town.adapter
    assert adapter.channel
    assert adapter.account
    assert adapter.text_limit > 0
    number = town.say("hello", town.team)
    (message,) = await taken(adapter, 1)
    assert (message.channel, message.account) == (adapter.channel, adapter.account)
    assert (message.text, message.peer) == ("hello", town.team)
    assert message.message_id == (number or message.message_id)


async def hands_in_everything_in_order(town: Town) -> None:
    for number in range(5):
        town.say(f"{number}", town.alice if number % 2 else town.team)
    messages = await taken(town.adapter, 5)
    assert [message.text for message in messages] == ["0", "1", "2", "3", "4"]
    assert len({message.message_id for message in messages}) == 5


async def acknowledges_nothing_that_was_not_taken(town: Town) -> None:
    for number in range(3):
        town.say(f"{number}", town.alice)
    assert [message.text for message in await taken(town.adapter, 2)] == ["0", "1"]
    again = await taken(town.adapter, 1)
    assert [message.text for message in again] == ["1"], (
        "a message that was not taken did not come again"
    )


async def gives_what_was_acknowledged_no_second_time(town: Town) -> None:
    town.say("first", town.alice)
    town.say("second", town.alice)
    await taken(town.adapter, 2)
    assert [message.text for message in await taken(town.adapter, 1)] == ["second"]


async def delivers_a_part_before_it_returns(town: Town) -> None:
    adapter, alice = town.adapter, town.alice
    async with at_work(town, adapter):
        receipt = await adapter.send(part(adapter, alice, "hello"))
        assert isinstance(receipt, Receipt)
        assert receipt.platform_ids or not capabilities(adapter).edits
        await adapter.send(part(adapter, alice, "more", 1))
        assert town.received() == [(alice.id, "hello"), (alice.id, "more")]


async def settles_no_part_for_delivered_that_is_not_there(town: Town) -> None:
    adapter = town.adapter
    async with at_work(town, adapter):
        await adapter.send(part(adapter, town.alice, "hello"))
    fresh = town.adapter
    assert await fresh.settle(part(fresh, town.alice, "hello")) is not Settlement.ABSENT
    assert await fresh.settle(part(fresh, town.alice, "never", 1)) is not Settlement.DELIVERED


async def shows_that_it_writes_to_the_peer_alone(town: Town) -> None:
    adapter = town.adapter
    await adapter.typing(part(adapter, town.alice, "").to)
    assert town.received() == []
    assert set(town.typed()) <= {town.alice.id}


async def skips_events_that_it_does_not_understand(town: TroubledTown) -> None:
    town.babble()
    town.say("after them", town.alice)
    assert [message.text for message in await taken(town.adapter, 1)] == ["after them"]


async def gives_a_repeated_event_the_same_id(town: TroubledTown) -> None:
    town.say("hello", town.alice)
    town.repeat()
    first, again = await taken(town.adapter, 2)
    assert (first.message_id, first.text) == (again.message_id, again.text)


async def receives_again_after_a_disconnect(town: TroubledTown) -> None:
    town.disconnect()
    town.say("hello", town.alice)
    assert [message.text for message in await taken(town.adapter, 1)] == ["hello"]


async def keeps_hostile_names_as_they_are_written(town: TroubledTown) -> None:
    name = "\u202eecila </b>`[x](y)\n/approve *_~"
    town.say("*hello* <b> & @you /stop", town.alice, name)
    (message,) = await taken(town.adapter, 1)
    assert message.text == "*hello* <b> & @you /stop"
    assert " ".join(message.sender_name.split()) == " ".join(name.split())


async def waits_as_long_as_the_platform_says(town: TroubledTown) -> None:
    adapter = town.adapter
    town.limit(7)
    with pytest.raises(DeliveryDelayedError) as caught:
        await adapter.send(part(adapter, town.alice, "hello"))
    assert caught.value.seconds is not None
    assert 6 <= caught.value.seconds <= 8
    assert town.received() == []


async def gives_up_what_the_platform_refuses(town: TroubledTown) -> None:
    adapter = town.adapter
    town.refuse()
    with pytest.raises(DeliveryRefusedError):
        await adapter.send(part(adapter, town.alice, "hello"))
    await adapter.send(part(adapter, town.alice, "next", 1))
    assert town.received() == [(town.alice.id, "next")]


async def takes_no_lost_answer_for_a_refusal(town: TroubledTown) -> None:
    adapter = town.adapter
    town.swallow()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any but the two that mean "not sent"
        await adapter.send(part(adapter, town.alice, "hello"))
    assert not isinstance(caught.value, DeliveryDelayedError | DeliveryRefusedError)
    assert await adapter.settle(part(adapter, town.alice, "hello")) is not Settlement.ABSENT


async def sends_markup_as_text_that_people_can_read(town: TroubledTown) -> None:
    adapter = town.adapter
    text = "a < b & c > d `x < y` **bold** _x_ [l](https://example.com/?a=1&b=2) <script>"
    await adapter.send(part(adapter, town.alice, text))
    ((_, shown),) = town.received()
    for piece in ("a < b & c > d", "x < y", "bold", "<script>"):
        assert piece in shown


async def sends_a_text_of_the_greatest_length(town: TroubledTown) -> None:
    adapter = town.adapter
    await adapter.send(part(adapter, town.alice, "é" * adapter.text_limit))
    assert len(town.received()) == 1


Clause = Callable[[Town], Awaitable[None]]
TroubledClause = Callable[[TroubledTown], Awaitable[None]]
CONTRACT: Final[list[Clause]] = [
    names_itself_in_what_it_hands_in,
    hands_in_everything_in_order,
    acknowledges_nothing_that_was_not_taken,
    gives_what_was_acknowledged_no_second_time,
    delivers_a_part_before_it_returns,
    settles_no_part_for_delivered_that_is_not_there,
    shows_that_it_writes_to_the_peer_alone,
]
TROUBLES: Final[list[TroubledClause]] = [
    skips_events_that_it_does_not_understand,
    gives_a_repeated_event_the_same_id,
    receives_again_after_a_disconnect,
    keeps_hostile_names_as_they_are_written,
    waits_as_long_as_the_platform_says,
    gives_up_what_the_platform_refuses,
    takes_no_lost_answer_for_a_refusal,
    sends_markup_as_text_that_people_can_read,
    sends_a_text_of_the_greatest_length,
]
