"""The ledger of inbound messages, the rows of runs, the outbox."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.model import message
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import Receipt
from skerry.store import Store, Unit, inbound, open_store, outbox, runs, sessions
from skerry.store.outbox import PartState
from tests.support.core import MAIN, request

CHANNEL, ACCOUNT = ChannelId("memory"), AccountId("default")
ALICE, BOB = (Peer(PeerKind.DIRECT, name) for name in ("alice", "bob"))
ARRIVED = InboundMessage(CHANNEL, ACCOUNT, ALICE, "alice", "hi", "m1", 0)


def to(peer: Peer) -> ReplyTo:
    return ReplyTo(CHANNEL, ACCOUNT, peer, "m1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    async with open_store(tmp_path / "state.sqlite") as opened:
        yield opened


async def test_a_message_is_taken_once_and_names_its_run_for_ever(store: Store) -> None:
    take = inbound.take
    assert await store.write(lambda unit: take(unit, ARRIVED, RunId("r1"))) is None
    assert await store.write(lambda unit: take(unit, ARRIVED, RunId("r2"))) == "r1"


@pytest.mark.parametrize(
    "other",
    [
        replace(ARRIVED, message_id="m2"),
        replace(ARRIVED, account=AccountId("second")),
        replace(ARRIVED, channel=ChannelId("other")),
        replace(ARRIVED, peer=BOB),
        replace(ARRIVED, thread_id="t"),
    ],
    ids=["id", "account", "channel", "peer", "thread"],
)
async def test_the_same_id_elsewhere_is_another_message(
    store: Store, other: InboundMessage
) -> None:
    await store.write(lambda unit: inbound.take(unit, ARRIVED, RunId("r1")))
    assert await store.write(lambda unit: inbound.take(unit, other, RunId("r2"))) is None


async def test_messages_without_an_id_are_all_taken(store: Store) -> None:
    unnamed = replace(ARRIVED, message_id="")
    for name in ("r1", "r2"):
        take = partial(inbound.take, message=unnamed, run_id=RunId(name))
        assert await store.write(take) is None


async def test_open_runs_come_in_the_order_of_acceptance(store: Store) -> None:
    def accept(unit: Unit) -> None:
        for name in ("z", "a", "m"):
            runs.add(unit, request(name), SessionId("s1"), 0, 7)  # all in one millisecond

    await store.write(accept)
    open_runs = await store.read(runs.unfinished)
    assert [open_run.request.run_id for open_run in open_runs] == ["z", "a", "m"]


async def test_a_run_knows_which_run_its_message_has_entered(store: Store) -> None:
    def enter(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
        for name in ("host", "guest", "waiting"):
            runs.add(unit, request(name), session_id, 0, 1)
        messages = [message.user(name, 1) for name in ("host", "guest")]
        sessions.append(unit, session_id, tail, "host", messages, 1)
        runs.enter(unit, RunId("host"), SessionId("s1"), 1)
        runs.join(unit, RunId("guest"), RunId("host"), 2)

    await store.write(enter)
    open_runs = await store.read(runs.unfinished)
    assert {open_run.request.run_id: open_run.host for open_run in open_runs} == {
        "host": None,
        "guest": "host",
        "waiting": None,
    }


async def test_messages_are_one_entry_however_many_runs_were_accepted_between(
    store: Store,
) -> None:
    def accept(unit: Unit) -> None:
        runs.add(unit, request("one", "r-one"), SessionId("s1"), 5, 1)
        for number in range(1_001):
            runs.add(unit, request("other", f"r{number}"), SessionId("s2"), 5, 1)
        runs.add(unit, request("two", "r-two"), SessionId("s1"), 5, 1)

    await store.write(accept)
    assert await store.read(lambda reader: runs.sharing(reader, "r-two")) == ["r-one", "r-two"]


async def test_parts_come_in_order_page_by_page(store: Store) -> None:
    texts = [str(number) for number in range(5)]
    await store.write(lambda unit: outbox.add(unit, RunId("r1"), 0, to(ALICE), texts, 1))
    first = await store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT, limit=3))
    serials = {waiting.part.serial for waiting in first}
    rest = await store.read(
        lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT, excluded=serials)
    )
    assert [waiting.part.text for waiting in (*first, *rest)] == texts
    assert first[1].part.nonce == "r1/0/1"


async def test_a_part_with_a_lower_number_that_is_written_later_is_not_passed_over(
    store: Store,
) -> None:
    await store.write(lambda unit: outbox.add(unit, RunId("r1"), 0, to(ALICE), ["a", "b"], 1))
    (_, second) = await store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))
    await store.write(lambda unit: unit.execute("UPDATE outbox SET serial = -1 WHERE serial = 1"))
    remaining = await store.read(
        lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT, excluded={second.part.serial})
    )
    assert [waiting.part.text for waiting in remaining] == ["a"]


async def test_a_part_and_its_error_have_no_nul(store: Store) -> None:
    await store.write(lambda unit: outbox.add(unit, RunId("r1"), 0, to(ALICE), ["a\0b"], 1))
    await store.write(lambda unit: outbox.set_error(unit, 1, "no\0"))
    (part,) = await store.read(outbox.undelivered)
    assert (part.waiting.part.text, part.error) == ("a\ufffdb", "no\ufffd")


async def test_attempts_are_counted_and_an_end_takes_a_part_out(store: Store) -> None:
    await store.write(lambda unit: outbox.add(unit, RunId("r1"), 0, to(BOB), ["a", "b", "c"], 1))

    def mark(unit: Unit) -> None:
        outbox.mark(unit, 1, PartState.SENDING, 2)
        outbox.mark(unit, 1, PartState.SENDING, 2)
        outbox.mark(unit, 2, PartState.FAILED, 2)
        outbox.mark(unit, 3, PartState.SENT, 2, Receipt(("p1",)))

    await store.write(mark)
    (waiting_part,) = await store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))
    assert (waiting_part.state, waiting_part.attempts) == (PartState.SENDING, 2)
    assert await store.read(outbox.counts) == {"failed": 1, "sending": 1}
