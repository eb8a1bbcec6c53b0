"""The sender: in order, once, and one conversation's trouble is its own."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from skerry.app import delivery
from skerry.app.delivery import Delivery, Sender
from skerry.hooks.events import MessageSent
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.ports.channel import Inbox
from skerry.store import Store, nothing, open_store, outbox
from skerry.store.outbox import PartState
from skerry.testing.model import Gate

RECEIPT = Receipt(("platform-id",))


def to(name: str) -> ReplyTo:
    return ReplyTo(
        ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, name), f"from-{name}"
    )


@dataclass
class Adapter:
    """Takes parts, or raises what `fails` says; settles as it is told, or as its log shows."""

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
        there = Settlement.DELIVERED if part.text in self.sent else Settlement.ABSENT
        return self.settles or there


@dataclass
class Post:
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
async def post(home: Path, adapter: Adapter) -> AsyncGenerator[Post]:
    async with Hooks() as hooks, open_store(home / "state.sqlite") as store:
        yield Post(store, adapter, Sender(adapter, store, SystemClock(), nothing, hooks))


def broken_for(name: str) -> Callable[[OutboundPart], Exception | None]:
    return lambda part: OSError("no route") if part.to.peer.id == name else None


async def test_parts_are_sent_in_order_and_once(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as one:
        await one.write("alice", "a1", "a2")
        await one.write("bob", "b1")
        await one.sender.flush()
        await one.sender.flush()
        assert one.adapter.sent == ["a1", "a2", "b1"]
        assert await one.counts() == {}


async def test_a_part_that_fails_holds_its_conversation_and_no_other(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as one:
        await one.write("alice", "a1", "a2")
        await one.write("bob", "b1")
        await one.sender.flush()
        assert one.adapter.tried == ["a1", "b1"]
        assert await one.counts() == {"sending": 1, "pending": 1}


async def test_hooks_hear_of_each_part_that_was_taken_or_refused_and_of_no_other(
    tmp_path: Path,
) -> None:
    refusals: dict[str, Exception] = {
        "bob": DeliveryRefusedError("blocked"),
        "carol": OSError("no route"),
    }
    heard: list[tuple[str, bool, bool]] = []
    done = anyio.Event()

    async def hear(event: MessageSent) -> None:
        heard.append((event.content, event.success, event.error is None))
        if len(heard) == 3:
            done.set()

    async with post(tmp_path, Adapter(fails=lambda part: refusals.get(part.to.peer.id))) as one:
        one.sender.hooks.message_sent.add(Handler("test", hear))
        await one.write("alice", "a1", "a2")
        await one.write("bob", "b1")
        await one.write("carol", "c1")
        with anyio.fail_after(10):
            await one.sender.flush()
            await done.wait()
    assert heard == [("a1", True, True), ("a2", True, True), ("b1", False, False)]


async def test_a_hundred_held_parts_hide_nobody(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as one:
        await one.write("alice", *(f"a{number}" for number in range(250)))
        await one.write("bob", "b1")
        await one.sender.flush()
        assert one.adapter.tried == ["a0", "b1"]


async def test_a_held_part_is_not_tried_at_every_message_of_others(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter(fails=broken_for("alice"))) as one:
        await one.write("alice", "a1")
        for number in range(3):
            await one.write("bob", f"b{number}")
            await one.sender.flush()
        assert one.adapter.tried == ["a1", "b0", "b1", "b2"]


async def test_it_is_tried_again_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE", 0.01)
    failures = [OSError("once"), OSError("twice")]
    adapter = Adapter(fails=lambda part: failures.pop() if part.text == "a1" and failures else None)
    async with post(tmp_path, adapter) as one, anyio.create_task_group() as tasks:
        await one.write("alice", "a1", "a2")
        tasks.start_soon(one.sender.run)
        with anyio.fail_after(10):
            while await one.counts():  # noqa: ASYNC110 - the store tells nobody
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
        assert adapter.sent == ["a1", "a2"]


async def test_a_refused_part_fails_at_once_and_the_next_goes_out(tmp_path: Path) -> None:
    def refuse(part: OutboundPart) -> Exception | None:
        return DeliveryRefusedError("blocked") if part.text == "a1" else None

    async with post(tmp_path, Adapter(fails=refuse)) as one:
        await one.write("alice", "a1", "a2")
        await one.sender.flush()
        assert one.adapter.sent == ["a2"]
        assert await one.counts() == {"failed": 1}


async def test_a_part_that_was_tried_for_a_day_is_given_up(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as one:
        await one.write("alice", "a1", "a2")
        await one.mark(1, PartState.SENDING, times=delivery.MAX_ATTEMPTS)
        await one.sender.flush()
        assert one.adapter.sent == ["a2"]
        assert await one.counts() == {"failed": 1}


@pytest.mark.parametrize(
    ("settles", "sent", "left"),
    [
        (Settlement.DELIVERED, ["a2"], {}),
        (Settlement.ABSENT, ["a1", "a2"], {}),
        (Settlement.UNKNOWN, ["a2"], {"unknown": 1}),
        (OSError("down"), [], {"sending": 1, "pending": 1}),
    ],
    ids=["delivered", "absent", "unknown", "cannot be asked"],
)
async def test_an_interrupted_part_is_settled_first(
    tmp_path: Path, settles: Settlement | Exception, sent: list[str], left: dict[str, int]
) -> None:
    async with post(tmp_path, Adapter(settles=settles)) as one:
        await one.write("alice", "a1", "a2")
        await one.mark(1, PartState.SENDING)
        await one.sender.flush()
        assert one.adapter.sent == sent
        assert await one.counts() == left


async def test_what_could_not_be_marked_as_sent_is_not_sent_again(tmp_path: Path) -> None:
    adapter = Adapter(receipt=Receipt(("a receipt that finds no room" * 10_000,)))
    async with post(tmp_path, adapter) as one:
        await one.write("alice", "a1", "a2")
        await one.store.write(lambda unit: unit.one("PRAGMA max_page_count = 1"))
        await one.sender.flush()
        assert await one.counts() == {"sending": 1, "pending": 1}
        await one.store.write(lambda unit: unit.one("PRAGMA max_page_count = 1073741823"))
        await one.sender.flush()
        assert adapter.sent == ["a1", "a2"]
        assert await one.counts() == {}


async def test_a_stop_waits_for_the_part_that_is_being_sent(tmp_path: Path) -> None:
    gate = Gate()

    class Slow(Adapter):
        async def send(self, part: OutboundPart) -> Receipt:
            await gate.hold()
            return await super().send(part)

    slow = Slow(settles=Settlement.UNKNOWN)
    async with post(tmp_path, slow) as one:
        await one.write("ann", "hello", "again")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.sender.run)
                await gate.reached.wait()
                tasks.cancel_scope.cancel()
                gate.open()
        assert slow.sent == ["hello"]
        assert await one.counts() == {"pending": 1}


def test_a_text_is_cut_to_what_the_platform_takes() -> None:
    store: Store = object()  # type: ignore[assignment]  # cutting does not ask it
    sender = Sender(Adapter(), store, SystemClock(), nothing, Hooks())
    both = Delivery({(ChannelId("memory"), AccountId("default")): sender})
    assert len(both.parts(to("alice"), "eleven char")) > 1
    gone = ReplyTo(ChannelId("gone"), AccountId("x"), Peer(PeerKind.DIRECT, "a"), "m")
    assert both.parts(gone, "eleven char") == ["eleven char"]
    both.wake(gone)
