"""The sender: order, no repetition, and failures that hold back only one conversation."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import pytest

from skerry.config.messages import UnknownDelivery
from skerry.hooks.events import MessageSent
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.infra.backoff import Backoff
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.model.undelivered import DeliveryDelayedError, PartError
from skerry.ports.channel import Inbox
from skerry.runtime import delivery
from skerry.runtime.delivery import Sender, Senders
from skerry.store import Store, no_fault, open_store, outbox
from skerry.store.outbox import PartState
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate

RECEIPT = Receipt(("platform-id",))


def to(name: str) -> ReplyTo:
    return ReplyTo(
        ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, name), f"from-{name}"
    )


@dataclass
class Adapter:
    """Accepts parts, or raises the result of `fails`; settles as configured, or from its log."""

    fails: Callable[[OutboundPart], Exception | None] = lambda _: None
    settles: Settlement | Exception | None = None
    sent: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    receipt: Receipt = RECEIPT
    channel = ChannelId("memory")
    account = AccountId("default")
    text_limit = 10
    text_unit = TextUnit.CHARACTERS

    async def run(self, inbox: Inbox) -> None:
        raise NotImplementedError(inbox)

    async def send(self, part: OutboundPart) -> Receipt:
        self.tried.append(part.text)
        if error := self.fails(part):
            raise error
        self.sent.append(part.text)
        return self.receipt

    async def typing(self, to: ReplyTo) -> None:
        raise AssertionError(to)

    async def settle(self, part: OutboundPart) -> Settlement:
        if isinstance(self.settles, Exception):
            raise self.settles
        settlement = Settlement.DELIVERED if part.text in self.sent else Settlement.ABSENT
        return self.settles or settlement


@dataclass
class OutboxRig:
    """An outbox and its sender."""

    store: Store
    adapter: Adapter
    sender: Sender

    async def write(self, peer: str, *texts: str) -> None:
        run_id = RunId(f"{peer}-{texts[0]}")
        await self.store.write(lambda unit: outbox.add(unit, run_id, 0, to(peer), texts, 1))

    async def mark(self, serial: int, state: PartState, times: int = 1) -> None:
        for _ in range(times):
            await self.store.write(lambda unit: outbox.mark(unit, serial, state, 1))

    async def counts(self) -> dict[str, int]:
        return await self.store.read(outbox.counts)


@asynccontextmanager
async def post(home: Path, adapter: Adapter) -> AsyncGenerator[OutboxRig]:
    async with Hooks() as hooks, open_store(home / "state.sqlite") as store:
        yield OutboxRig(store, adapter, Sender(adapter, store, SystemClock(), no_fault, hooks))


def broken_for(name: str) -> Callable[[OutboundPart], Exception | None]:
    return lambda part: OSError("no route") if part.to.peer.id == name else None


async def test_parts_are_sent_in_order_and_once(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.write("bob", "b1")
        await rig.sender.flush()
        await rig.sender.flush()
        assert rig.adapter.sent == ["a1", "a2", "b1"]
        assert await rig.counts() == {}


async def test_a_part_that_fails_holds_its_conversation_and_no_other(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.write("bob", "b1")
        await rig.sender.flush()
        assert rig.adapter.tried == ["a1", "b1"]
        assert await rig.counts() == {"sending": 1, "pending": 1}


async def test_hooks_receive_each_accepted_or_refused_part_and_no_other(
    tmp_path: Path,
) -> None:
    refusals: dict[str, Exception] = {
        "bob": DeliveryRefusedError("blocked"),
        "carol": OSError("no route"),
    }
    sent: list[tuple[str, bool, bool]] = []
    all_sent = anyio.Event()

    async def hear(event: MessageSent) -> None:
        sent.append((event.content, event.success, event.error is None))
        if len(sent) == 3:
            all_sent.set()

    async with post(tmp_path, Adapter(fails=lambda part: refusals.get(part.to.peer.id))) as rig:
        rig.sender.hooks.message_sent.add(Handler("test", hear))
        await rig.write("alice", "a1", "a2")
        await rig.write("bob", "b1")
        await rig.write("carol", "c1")
        with anyio.fail_after(60):
            await rig.sender.flush()
            await all_sent.wait()
    assert sent == [("a1", True, True), ("a2", True, True), ("b1", False, False)]


async def test_a_hundred_held_parts_hide_nobody(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as rig:
        await rig.write("alice", *(f"a{number}" for number in range(250)))
        await rig.write("bob", "b1")
        await rig.sender.flush()
        assert rig.adapter.tried == ["a0", "b1"]


async def test_a_held_part_is_not_tried_at_every_message_of_others(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as rig:
        await rig.write("alice", "a1")
        for number in range(3):
            await rig.write("bob", f"b{number}")
            await rig.sender.flush()
        assert rig.adapter.tried == ["a1", "b0", "b1", "b2"]


async def test_it_is_tried_again_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "RETRIES", Backoff(base=0.01, cap=300.0))
    failures = [OSError("once"), OSError("twice")]
    adapter = Adapter(fails=lambda part: failures.pop() if part.text == "a1" and failures else None)
    async with post(tmp_path, adapter) as rig, anyio.create_task_group() as tasks:
        await rig.write("alice", "a1", "a2")
        tasks.start_soon(rig.sender.run)
        with anyio.fail_after(60):
            while await rig.counts():  # noqa: ASYNC110 - the store has no event for it
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
        assert adapter.sent == ["a1", "a2"]


async def test_a_refused_part_fails_at_once_and_the_next_goes_out(tmp_path: Path) -> None:
    def refuse(part: OutboundPart) -> Exception | None:
        return DeliveryRefusedError("blocked") if part.text == "a1" else None

    async with post(tmp_path, Adapter(fails=refuse)) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.sender.flush()
        assert rig.adapter.sent == ["a2"]
        assert await rig.counts() == {"failed": 1}


async def test_a_part_that_was_tried_for_a_day_is_given_up(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.mark(1, PartState.SENDING, times=delivery.MAX_ATTEMPTS)
        await rig.sender.flush()
        assert rig.adapter.sent == ["a2"]
        assert await rig.counts() == {"failed": 1}


@pytest.mark.parametrize(
    ("settles", "sent", "states"),
    [
        (Settlement.DELIVERED, ["a2"], {}),
        (Settlement.ABSENT, ["a1", "a2"], {}),
        (Settlement.UNKNOWN, ["a2", delivery.MISSING], {"unknown": 1}),
        (OSError("down"), [], {"sending": 1, "pending": 1}),
    ],
    ids=["delivered", "absent", "unknown", "cannot be asked"],
)
async def test_an_interrupted_part_is_settled_first(
    tmp_path: Path, settles: Settlement | Exception, sent: list[str], states: dict[str, int]
) -> None:
    async with post(tmp_path, Adapter(settles=settles)) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.mark(1, PartState.SENDING)
        await rig.sender.flush()
        assert rig.adapter.sent == sent
        assert await rig.counts() == states


async def test_an_unknown_part_goes_out_once_more_with_a_mark_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    async with post(tmp_path, Adapter(settles=Settlement.UNKNOWN)) as rig:
        rig.sender.on_unknown = lambda: UnknownDelivery.REPEAT
        await rig.write("alice", "a1", "a2")
        await rig.mark(1, PartState.SENDING)
        await rig.sender.flush()
        assert "".join(rig.adapter.sent) == f"{delivery.REPEATED}a1a2"
        assert await rig.counts() == {}


async def test_a_part_is_repeated_once_and_its_notice_until_it_is_sent(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(settles=Settlement.UNKNOWN)) as rig:
        rig.sender.on_unknown = lambda: UnknownDelivery.REPEAT
        await rig.write("alice", "a1")
        await rig.store.write(lambda unit: outbox.mark_repeated(unit, 1))
        await rig.mark(1, PartState.SENDING)
        await rig.sender.flush()
        assert rig.adapter.sent == [delivery.MISSING]
        await rig.mark(2, PartState.SENDING)
        await rig.store.write(lambda unit: outbox.mark_repeated(unit, 2))
        await rig.sender.flush()
        assert rig.adapter.sent == [delivery.MISSING, delivery.MISSING]
        assert await rig.counts() == {"unknown": 1}


async def test_a_platform_that_says_when_is_asked_then_and_not_before(tmp_path: Path) -> None:
    delays: list[Exception] = [DeliveryDelayedError("slow down", 3600.0)]
    adapter = Adapter(fails=lambda _: delays.pop() if delays else None, settles=Settlement.UNKNOWN)
    clock = FakeClock()
    async with post(tmp_path, adapter) as rig:
        rig.sender.clock = clock
        await rig.write("alice", "a1", "a2")
        await rig.sender.flush()
        await rig.sender.flush()
        assert (adapter.sent, await rig.counts()) == ([], {"pending": 2})
        (part, _) = await rig.store.read(outbox.undelivered)
        assert part.waiting.retry_at == clock.now_ms() + 3_600_000
        assert "slow down" in part.error
        # A start before that waits on; one after it does not, nor does one whose clock was set.
        restarted = Sender(adapter, rig.store, clock, no_fault, rig.sender.hooks)
        await restarted.flush()
        assert adapter.sent == []
        clock.advance(3_600_000)
        restarted = Sender(adapter, rig.store, clock, no_fault, rig.sender.hooks)
        await restarted.flush()
        assert adapter.sent == ["a1", "a2"]


@pytest.mark.parametrize("years", [-30, 30])
async def test_a_clock_that_is_set_holds_nothing_longer_than_a_day(
    tmp_path: Path, years: int
) -> None:
    clock = FakeClock()
    async with post(tmp_path, Adapter()) as rig:
        rig.sender.clock = clock
        await rig.write("alice", "a1")
        late = clock.now_ms() + 3_600_000
        await rig.store.write(lambda unit: outbox.put_off(unit, 1, "x", late, maybe_sent=False))
        clock.advance(years * 31_557_600_000)
        (waiting,) = await rig.store.read(
            lambda reader: outbox.waiting(reader, ChannelId("memory"), AccountId("default"))
        )
        assert 0 <= rig.sender._wait_seconds(waiting) <= delivery.MAX_HINT_SECONDS
        rig.sender.hurry(to("alice").peer)
        await rig.sender.flush()
        assert rig.adapter.sent == (["a1"] if years > 0 else [])


async def test_what_a_person_drops_is_not_sent_and_what_he_retries_is_sent_at_once(
    tmp_path: Path,
) -> None:
    adapter = Adapter(fails=broken_for("alice"))
    async with post(tmp_path, adapter) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.mark(1, PartState.FAILED)
        await rig.store.write(lambda unit: outbox.drop(unit, 2, 5))
        await rig.store.write(lambda unit: outbox.mark(unit, 2, PartState.SENDING, 5))
        await rig.sender.flush()
        assert (adapter.tried, await rig.counts()) == ([], {"failed": 1})
        adapter.fails = lambda _: None
        await rig.store.write(lambda unit: outbox.retry(unit, 1, 6))
        rig.sender.hurry(to("alice").peer)
        await rig.sender.flush()
        assert adapter.sent == ["a1"]
        for act in (outbox.retry, outbox.drop):
            for serial in (1, 2, 9):
                with pytest.raises(PartError):
                    await rig.store.write(partial(act, serial=serial, now=7))


async def test_a_part_that_is_dropped_while_it_is_settled_leaves_nothing_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dropping(Adapter):
        async def settle(self, part: OutboundPart) -> Settlement:
            await rig.store.write(lambda unit: outbox.drop(unit, part.serial, 5))
            raise OSError("no route")

    monkeypatch.setattr(delivery, "RETRIES", Backoff(base=0.0, cap=0.0))
    async with post(tmp_path, Dropping(fails=broken_for("alice"))) as rig:
        await rig.write("alice", "a1")
        await rig.sender.flush()
        await rig.sender._send_waiting()
        assert await rig.counts() == {}
        assert await rig.sender._send_waiting() is None, "it would read the outbox without a pause"


async def test_what_could_not_be_marked_as_sent_is_not_sent_again(tmp_path: Path) -> None:
    adapter = Adapter(receipt=Receipt(("a receipt that finds no room" * 10_000,)))
    async with post(tmp_path, adapter) as rig:
        await rig.write("alice", "a1", "a2")
        await rig.store.write(lambda unit: unit.one("PRAGMA max_page_count = 1"))
        await rig.sender.flush()
        assert await rig.counts() == {"sending": 1, "pending": 1}
        await rig.store.write(lambda unit: unit.one("PRAGMA max_page_count = 1073741823"))
        await rig.sender.flush()
        assert adapter.sent == ["a1", "a2"]
        assert await rig.counts() == {}


async def test_a_stop_waits_for_the_part_that_is_being_sent(tmp_path: Path) -> None:
    gate = ReplyGate()

    class Slow(Adapter):
        async def send(self, part: OutboundPart) -> Receipt:
            await gate.hold()
            return await super().send(part)

    slow = Slow(settles=Settlement.UNKNOWN)
    async with post(tmp_path, slow) as rig:
        await rig.write("ann", "hello", "again")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(rig.sender.run)
                await gate.reached.wait()
                tasks.cancel_scope.cancel()
                gate.open()
        assert slow.sent == ["hello"]
        assert await rig.counts() == {"pending": 1}


def test_a_text_is_cut_to_what_the_platform_takes() -> None:
    store: Store = object()  # type: ignore[assignment]  # cutting does not ask it
    sender = Sender(Adapter(), store, SystemClock(), no_fault, Hooks())
    senders = Senders({(ChannelId("memory"), AccountId("default")): sender})
    assert len(senders.parts(to("alice"), "eleven char")) > 1
    unknown_chat = ReplyTo(ChannelId("gone"), AccountId("x"), Peer(PeerKind.DIRECT, "a"), "m")
    assert senders.parts(unknown_chat, "eleven char") == ["eleven char"]
    senders.wake(unknown_chat)


async def test_the_owner_reads_in_another_chat_what_could_not_be_delivered(tmp_path: Path) -> None:
    def blocked(part: OutboundPart) -> Exception | None:
        return DeliveryRefusedError("blocked") if part.to.peer.id == "bob" else None

    async with post(tmp_path, Adapter(blocked)) as rig:
        rig.sender.owner = lambda: to("owner")
        rig.sender.wake_other = lambda _: rig.sender.wake()
        await rig.write("bob", "b1")
        await rig.write("alice", "a1")
        await rig.sender.flush()
        await rig.sender.flush()
        (notice,) = [text for text in rig.adapter.sent if text != "a1"]
        assert "A reply to bob on memory/default could not be delivered" in notice
        assert "skerry outbox retry 1" in notice
        rig.adapter.fails = lambda _: DeliveryRefusedError("blocked")
        await rig.write("carol", "c1")
        await rig.sender.flush()
        await rig.sender.flush()
        assert await rig.counts() == {"failed": 3}  # no notice about the notice
