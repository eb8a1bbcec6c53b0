"""The outbox in every sequence of failures, kills, retries and drops: each part once, in order."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.hooks.hooks import Hooks
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.model.undelivered import DeliveryDelayedError, PartError
from skerry.ports.channel import Inbox
from skerry.runtime.delivery import Sender
from skerry.store import DATABASE, Store, open_store, outbox
from skerry.store.outbox import PartState, WaitingPart
from skerry.testing.clock import FakeClock
from tests.support.shown import examples, shown

PEERS = "ab"
steps = st.lists(
    st.tuples(st.just("write"), st.sampled_from(PEERS))
    | st.tuples(st.sampled_from(["retry", "drop"]), st.integers(1, 8))
    | st.tuples(
        st.just("next"),
        st.sampled_from(["delayed", "lost", "arrived", "refused", "killed", "killed late"]),
    )
    | st.tuples(st.sampled_from(["flush", "later", "clock"]), st.integers(-9, 9)),
    min_size=12,
    max_size=25,
)
Plan = list[tuple[str, str | int]]


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class Platform:
    """An adapter whose next calls end as the test sets, and that records its parts."""

    log: list[tuple[str, int]] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    channel = ChannelId("memory")
    account = AccountId("default")
    text_limit = 100
    text_unit = TextUnit.CHARACTERS

    async def run(self, inbox: Inbox) -> None:
        raise NotImplementedError(inbox)

    async def send(self, part: OutboundPart) -> Receipt:
        fate = self.planned.pop(0) if self.planned else "arrives"
        if fate in {"arrives", "arrived", "killed late"}:
            self.log.append((part.to.peer.id, part.serial))
        match fate:
            case "delayed":
                raise DeliveryDelayedError("slow down", 5.0)
            case "refused":
                raise DeliveryRefusedError("never")
            case "lost" | "arrived":
                raise OSError(fate)
            case "killed" | "killed late":
                raise KilledError
        return Receipt((part.nonce,))

    async def typing(self, to: ReplyTo) -> None:
        raise NotImplementedError(to)

    async def settle(self, part: OutboundPart) -> Settlement:
        there = (part.to.peer.id, part.serial) in self.log
        return Settlement.DELIVERED if there else Settlement.ABSENT


class Guessing(Sender):
    """Sends again what may have arrived: the defect that the machine must find."""

    async def _settlement(self, part: WaitingPart) -> Settlement:
        del part
        return Settlement.ABSENT


class Hasty(Sender):
    """Lets the parts behind one that failed go first."""

    def _wait_seconds(self, part: WaitingPart) -> float:
        self._retry_at.clear()
        return super()._wait_seconds(part)


@dataclass
class Machine:
    """One outbox, and its expected contents."""

    store: Store
    make: Callable[[], Sender]
    platform: Platform
    clock: FakeClock
    written: list[tuple[str, int]] = field(default_factory=list)
    decided: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sender = self.make()

    async def do(self, action: str, target: str | int) -> None:
        match action:
            case "write":
                await self.write(str(target))
            case "next":
                self.platform.planned.append(str(target))
            case "clock":
                self.clock.advance(int(target) * 31_557_600_000)
            case "later":
                await self.later()
            case "retry" | "drop":
                await self.decide(action, int(target))
            case _:
                await self.flush()

    async def write(self, peer: str) -> None:
        number = len(self.written) + 1
        to = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, peer), "m")
        run_id = RunId(f"r{number}")
        await self.store.write(lambda unit: outbox.add(unit, run_id, 0, to, ["text"], 1))
        self.written.append((peer, number))

    async def later(self) -> None:
        """Lets every pause be over, as time does."""
        now = anyio.current_time()
        self.sender._retry_at = dict.fromkeys(self.sender._retry_at, now)
        await self.flush()

    async def flush(self) -> None:
        try:
            await self.sender.flush()
        except KilledError:
            self.sender = self.make()

    async def decide(self, action: str, serial: int) -> None:
        act = outbox.retry if action == "retry" else outbox.drop
        try:
            await self.store.write(lambda unit: act(unit, serial, 1))
        except PartError:
            return
        self.decided.add(serial)

    async def wrong(self) -> list[str]:
        """Returns the violated invariants, once nothing fails any more."""
        self.platform.planned.clear()
        await self.store.write(lambda unit: unit.execute("UPDATE outbox SET retry_at = 0"))
        self.sender = self.make()
        await self.flush()
        log = self.platform.log
        found = [f"{one} twice" for one in set(log) if log.count(one) > 1]
        for peer in PEERS:
            plain = [n for p, n in log if p == peer and n not in self.decided]
            if plain != sorted(plain):
                found.append(f"{peer} got {plain}")
        kept = {row.waiting.part.serial: row.waiting.state for row in await self.all()}
        for peer, number in self.written:
            if ((peer, number) in log) != (kept[number] is PartState.SENT):
                found.append(f"{number} is {kept[number]}")
            if kept[number] in {PartState.PENDING, PartState.SENDING}:
                found.append(f"{number} is left over")
        return found

    async def all(self) -> list[outbox.OutboxRow]:
        return await self.store.read(lambda reader: outbox.undelivered(reader, list(PartState)))


async def play(plan: Plan, kind: type[Sender]) -> list[str]:
    platform, clock = Platform(), FakeClock()
    with tempfile.TemporaryDirectory() as home:
        async with Hooks() as hooks, open_store(Path(home) / DATABASE) as store:
            machine = Machine(
                store,
                lambda: kind(platform, store, clock, lambda _: None, hooks),
                platform,
                clock,
            )
            for action, target in plan:
                await machine.do(action, target)
            return await machine.wrong()


RUNS = settings(max_examples=examples(60), deadline=None)


def played(kind: type[Sender], plan: Plan) -> None:
    assert anyio.run(play, plan, kind) == []


def test_each_part_arrives_once_and_in_order_in_every_sequence() -> None:
    RUNS(given(plan=steps)(played))(kind=Sender)


@pytest.mark.parametrize("defect", [Guessing, Hasty])
def test_the_machine_finds_a_defect(defect: type[Sender]) -> None:
    with pytest.raises(AssertionError):
        shown(RUNS)(given(plan=steps)(played))(kind=defect)
