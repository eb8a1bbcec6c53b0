"""The ledger equals the bills of the providers, after failures, aborts and kills.

A kill is a copy of the database between two steps of a commit, and of the file of calls beside it:
just what `kill -9` leaves. Only a call that the process died in is lost, and the ledger has it as
lost.
"""

import shutil
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.model.errors import ModelError, ModelRateLimitError, ModelStreamCutError
from skerry.model.ids import RunId
from skerry.model.message import TextBlock, ToolCall, Usage
from skerry.ports.model import ModelReply, ModelRequest, ReplyListener
from skerry.ports.model_candidates import (
    CallTarget,
    Candidates,
    FailedAttempt,
    ModelCallEnded,
    ModelCandidate,
)
from skerry.runtime.recovery import RunFacts, recover
from skerry.runtime.usage.ledger import Ledger
from skerry.store import DATABASE, usage
from skerry.store.usage import Sums
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModels
from tests.support.core import MAIN, Core, open_core, request
from tests.support.shown import examples, shown

ANSWERS = ("ok", "tool", "refused", "cut", "empty")


@dataclass
class Provider:
    """A model API that keeps its own bill: each call has a count of its own."""

    api: str = "script"
    run: str = ""
    plan: deque[str] = field(default_factory=deque)
    bill: list[tuple[str, int]] = field(default_factory=list)
    """The run and the tokens of each call that it counted."""
    hangs: anyio.Event = field(default_factory=anyio.Event)

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        del request
        await anyio.lowlevel.checkpoint()
        does = self.plan.popleft() if self.plan else "ok"
        if does == "refused":
            raise ModelRateLimitError("429")
        counted = Usage(input=1 << len(self.bill), total_tokens=1)
        self.bill.append((self.run, counted.input))
        if does in {"cut", "hang"}:
            listener.on_spent(counted)
        if does == "cut":
            raise ModelStreamCutError("cut")
        if does == "hang":
            self.hangs.set()
            await anyio.sleep_forever()
        if does == "tool":
            return ModelReply((ToolCall(f"c{counted.input}", "read", {"path": "x"}),), "", counted)
        return ModelReply((TextBlock("yes"),) if does == "ok" else (), "stop", counted)


@dataclass
class Two(ScriptedModels):
    """Each call has a model and one to fall back to, both of one provider."""

    def tries(self, expected: CallTarget) -> Candidates:
        del expected
        assert self.provider is not None
        return Order([ModelCandidate(self.provider, self.info)] * 2)


@dataclass
class Order:
    """Asks in order, from the beginning at each call."""

    candidates: Sequence[ModelCandidate]
    left: list[ModelCandidate] = field(default_factory=list)
    attempts: list[FailedAttempt] = field(default_factory=list)
    running: bool = False

    async def next(self) -> ModelCandidate | None:
        if not self.running:
            self.left, self.attempts, self.running = list(self.candidates), [], True
        if not self.left:
            self.running = False
            return None
        return self.left.pop(0)

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        if error is None:
            self.running = False
        else:
            self.attempts.append(FailedAttempt(candidate.model.ref, "", error))

    def released(self, candidate: ModelCandidate) -> None:
        del candidate
        self.running = False


@dataclass
class Kill:
    """Copies the state at the given step of the commits to come."""

    provider: Provider
    home: Path
    after: int = 0
    copied: Path | None = None
    billed: int = 0

    def reach(self, point: str) -> None:
        if not self.after or not point.startswith("store."):
            return
        self.after -= 1
        if self.after == 0:
            self.copied = self.home.with_name(f"{self.home.name}+")
            self.copied.mkdir()
            while True:  # the loop goes on beside the thread that is here
                self.billed = len(self.provider.bill)
                for file in self.home.glob("calls*.jsonl"):
                    shutil.copy(file, self.copied)
                if self.billed == len(self.provider.bill):
                    break
            for file in self.home.glob(f"{DATABASE}*"):
                shutil.copy(file, self.copied)


@dataclass(frozen=True)
class Story:
    """One message: the outcome of its calls, its abort, and the time of a kill."""

    plan: tuple[str, ...]
    abort: bool = False
    kill: int = 0


stories = st.lists(
    st.builds(
        Story,
        st.lists(st.sampled_from(ANSWERS), max_size=5).map(tuple),
        st.booleans(),
        st.integers(0, 10),
    ),
    min_size=1,
    max_size=6,
)


async def play(told: Sequence[Story], folder: Path) -> None:
    """Plays the stories, and compares the ledger with the bill after each life of the process."""
    provider, home = Provider(), folder / "home"
    home.mkdir()
    left, kills = deque(enumerate(told)), 0
    while True:
        kill = Kill(provider, home)
        clock = FakeClock()
        async with open_core(home, Two(provider), clock=clock, reach=kill.reach) as core:
            await take_up(core, clock, provider)
            while left and kill.copied is None:
                number, story = left.popleft()
                kill.after = story.kill
                await one(core, provider, f"r{number}", story)
                kill.after = 0
        if kill.copied is None:
            break
        del provider.bill[kill.billed :]
        kills += 1
        home = kill.copied
    async with open_core(home, Two(provider), clock=FakeClock()) as core:
        found = await booked_in(core)
    compare(provider.bill, kills, *found)


async def take_up(core: Core, clock: FakeClock, provider: Provider) -> None:
    def parts(_: object, text: str) -> list[str]:
        return [text]

    again = await recover(core.store, clock, parts, core.hooks, facts=RunFacts())
    for run in again:
        provider.run = run.request.run_id
        core.dispatch.resume(run)
        with anyio.fail_after(60):
            await core.dispatch.wait(run.request.run_id, None)


async def one(core: Core, provider: Provider, name: str, story: Story) -> None:
    provider.run, provider.hangs = name, anyio.Event()
    provider.plan = deque((*story.plan, "hang") if story.abort else story.plan)
    await core.dispatch.submit(request(name))
    run = core.dispatch.runtime.running.get(RunId(name))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def abort() -> None:
                await provider.hangs.wait()
                core.dispatch.abort(MAIN, None, "test")

            if story.abort:
                tasks.start_soon(abort)
            if run is not None:
                await run.ended.wait()
            tasks.cancel_scope.cancel()
    provider.plan.clear()


async def booked_in(core: Core) -> tuple[list[tuple[str, int, str]], Sums, Sums]:
    """Returns the calls, the sums of the days, and the sums for budgets."""
    rows = await core.store.read(
        lambda reader: reader.all("SELECT run_id, input, outcome FROM model_call")
    )
    days = await core.store.read(lambda reader: usage.daily(reader, "0", "9"))
    kept = usage.total(one for on in core.ledger._used.values() for one in on.values())
    return rows, usage.total(days.values()), kept


def compare(
    bill: Sequence[tuple[str, int]],
    kills: int,
    rows: Sequence[tuple[str, int, str]],
    days: Sums,
    kept: Sums,
) -> None:
    booked = [(run, tokens) for run, tokens, _ in rows if tokens]
    assert len(set(booked)) == len(booked), "a call is booked twice"
    assert set(booked) <= set(bill), "a call is booked that was not billed"
    missing = [run for run, _ in set(bill) - set(booked)]
    lost = [run for run, _, outcome in rows if outcome == "lost"]
    assert not Counter(missing) - Counter(lost), "the ledger lacks a call that was billed"
    assert len(lost) <= kills, "a call is lost that no kill interrupted"
    assert (days.input, days.calls) == (sum(tokens for _, tokens in booked), len(rows))
    assert kept[:8] == days[:8]


RUNS = settings(max_examples=examples(15), deadline=None)


def played(told: list[Story]) -> None:
    with TemporaryDirectory() as folder:
        anyio.run(play, told, Path(folder))


def test_the_ledger_has_what_was_billed() -> None:
    RUNS(given(stories)(played))()


def test_a_ledger_that_forgets_calls_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Ledger.book

    def forgetful(self: Ledger, call: ModelCallEnded) -> None:
        if call.error is None:
            whole(self, call)

    monkeypatch.setattr(Ledger, "book", forgetful)
    with pytest.raises(AssertionError):
        shown(RUNS)(given(stories)(played))()
