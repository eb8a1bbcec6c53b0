"""The ledger in every sequence of messages, repeats and restarts: each is taken once."""

import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.infra.clock import SystemClock
from skerry.model.errors import KeyReusedError
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.runtime.recovery import recover
from skerry.store import idempotency_keys, inbound, runs
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import Core, open_core
from tests.support.shown import examples, shown

steps = st.lists(
    st.tuples(st.just("arrives"), st.integers(1, 3))
    | st.tuples(st.sampled_from(["ask", "ask other"]), st.integers(1, 3))
    | st.tuples(st.sampled_from(["restart", "half a day"]), st.just(0)),
    max_size=15,
)
Plan = list[tuple[str, int]]


@dataclass
class Machine:
    """A core that is opened repeatedly, and a separate count of its usage."""

    home: Path
    stack: AsyncExitStack
    core: Core
    arrived: set[str] = field(default_factory=set)
    asked: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What each key was used for, and for how many half days it holds."""
    runs: int = 0
    found: list[str] = field(default_factory=list)

    async def do(self, action: str, number: int) -> None:
        match action:
            case "arrives":
                await self.arrive(f"m{number}")
            case "ask":
                await self.ask(f"k{number}", f"text {number}")
            case "ask other":
                await self.ask(f"k{number}", "another text")
            case "restart":
                await self.restart()
            case _:
                await self.half_a_day()

    async def arrive(self, message_id: str) -> None:
        peer = Peer(PeerKind.DIRECT, "alice")
        arrived = InboundMessage(
            ChannelId("memory"), AccountId("default"), peer, "alice", message_id, message_id, 0
        )
        await self.core.dispatch.receive(arrived)
        self.runs += message_id not in self.arrived
        self.arrived.add(message_id)
        await self.idle()

    async def ask(self, key: str, text: str) -> None:
        known = self.asked.get(key)
        try:
            result = await self.core.ask(text, key)
        except KeyReusedError:
            if known is None or known[0] == text:
                self.found.append(f"{key} is refused")
            return
        if known is not None and known[0] != text:
            self.found.append(f"{key} is taken for another content")
        if known is None:
            self.asked[key] = (text, 3)
            self.runs += 1
        if result.payloads != (f"echo: {text}",):
            self.found.append(f"{key} is answered {result.payloads}")

    async def restart(self) -> None:
        await self.stack.aclose()
        self.core = await self.stack.enter_async_context(open_core(self.home, ScriptedModel(echo)))
        again = await recover(self.core.store, SystemClock(), lambda _, t: [t], self.core.hooks)
        for run in again:
            self.core.dispatch.resume(run)

    async def half_a_day(self) -> None:
        for _ in range(idempotency_keys.KEPT_QUARTERS // 2):
            await self.core.store.write(idempotency_keys.pass_quarter)
        self.asked = {k: (text, left - 1) for k, (text, left) in self.asked.items() if left > 1}

    async def idle(self) -> None:
        with anyio.fail_after(60):
            for run_id in self.core.dispatch.active():
                await self.core.dispatch.wait(RunId(run_id), None)

    async def wrong(self) -> list[str]:
        await self.idle()
        rows = await self.core.store.read(lambda reader: reader.all("SELECT result FROM run"))
        if len(rows) != self.runs:
            self.found.append(f"{len(rows)} runs for {self.runs}")
        return self.found


async def play(plan: Plan) -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(Path(home), ScriptedModel(echo)))
            machine = Machine(Path(home), stack, core)
            for action, number in plan:
                await machine.do(action, number)
            return await machine.wrong()


RUNS = settings(max_examples=examples(30), deadline=None)


def played(plan: Plan) -> None:
    assert anyio.run(play, plan) == []


def test_each_message_and_key_is_taken_once_in_every_sequence() -> None:
    RUNS(given(steps)(played))()


def _careless(*_: object) -> bool:
    """Says that a key was used with the same content."""
    return False


@pytest.mark.parametrize(
    ("module", "name", "defect"),
    [(inbound, "take", lambda *_: None), (runs, "has_other_content", _careless)],
    ids=["a ledger that forgets", "keys without content"],
)
def test_the_machine_finds_a_defect(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, defect: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, name, defect)
    with pytest.raises(AssertionError):
        shown(RUNS)(given(steps)(played))()
