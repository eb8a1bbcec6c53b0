"""The order of a person's messages: in every queue mode, with a full lane, over restarts.

Each schedule plays another plan and lets another task go on first. One rule holds for all of them:
messages reach the transcript in the order in which they were accepted. A failure prints a token
that replays it: `pytest --detangle-replay=TOKEN` with this file.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import detangle
import pytest

from skerry.config.messages import QueueConfig
from skerry.lanes.active_runs import ActiveRun
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ToolCall, UserMessage, open_calls
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.run import RunResult
from skerry.model.tool import ToolResult, ToolSpec
from skerry.ports.model import ModelReply, ModelRequest, ReplyListener
from skerry.ports.tool import ToolContext
from skerry.runtime import queue as queueing
from skerry.runtime.recovery import recover
from skerry.store import Store, runs, sessions
from skerry.testing.model import ScriptedModel
from tests.support.core import MAIN, Core, open_core, request
from tests.support.simulated import (
    Disk,
    SimulatedClock,
    run_workers_in_the_loop,
    template,
    until_killed,
)

OTHER = SessionKey.parse("agent:main:other")
SCHEDULES = 150
SEED = 11


class SlowModel(ScriptedModel):
    """Takes simulated time over each answer; some answers call a tool first."""

    def __init__(self) -> None:
        super().__init__(lambda _: ["ok"])

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Answers, or calls a tool, after a while."""
        await asyncio.sleep(detangle.choice([0.01, 0.3, 1.0]))
        reply = await super().complete(request, listener)
        if request.tools and detangle.flip(0.25):
            call = ToolCall(f"c{len(self.requests)}", "look", {})
            return ModelReply((call,), "toolUse", reply.usage)
        return reply


class Look:
    """A tool that takes simulated time."""

    spec = ToolSpec("look", "Looks.", {"type": "object"})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Looks."""
        del arguments, context
        await asyncio.sleep(detangle.choice([0.0, 0.2]))
        return ToolResult("seen")


class Person:
    """Writes a plan's messages one after the other, whatever happens to the gateway meanwhile."""

    def __init__(self, modes: Sequence[QueueMode]) -> None:
        self.plan = [(f"m{n}.", mode) for n, mode in enumerate(modes)]
        self.accepted: list[str] = []

    async def write(self, core: Core) -> None:
        while len(self.accepted) < len(self.plan):
            name, mode = self.plan[len(self.accepted)]
            await asyncio.sleep(detangle.choice([0.0, 0.05, 0.5]))
            await core.dispatch.submit(request(name, queue_mode=mode))
            self.accepted.append(name)


async def process(home: Path, disk: Disk, person: Person, limit: int, rules: QueueConfig) -> None:
    """Runs the gateway until all is written and answered."""
    model, clock = SlowModel(), SimulatedClock()
    opening = disk.open()
    async with open_core(
        home, model, tools=(Look(),), limit=limit, queue=rules, opening=opening, clock=clock
    ) as core:
        for run in await recover(core.store, clock, lambda _, text: [text], core.hooks):
            core.dispatch.resume(run)
        await core.dispatch.submit(request("load", f"load{clock.now_ms()}", OTHER))
        await person.write(core)
        while active := core.dispatch.active():
            await core.dispatch.wait(active[0], None)


async def schedule(home: Path, content: bytes) -> None:
    """Plays one plan over one or more processes; then look at what became of each message."""
    modes = detangle.choice([[mode] for mode in QueueMode] + [list(QueueMode)])
    person = Person([detangle.choice(modes) for _ in range(detangle.randint(2, 5))])
    debounce, cap = detangle.choice([0, 200]), detangle.choice([20, 2])
    rules = QueueConfig(debounce_ms=debounce, cap=cap, drop=detangle.choice(list(DropPolicy)))
    limit, kills = detangle.choice([1, 2]), detangle.randint(0, 2)
    disk = Disk(content)
    try:
        for left in range(kills, -1, -1):
            kill = asyncio.Event()
            life = partial(process, home, disk, person, limit, rules)
            if left:
                delay = detangle.choice([0.0, 0.02, 0.3, 0.6, 1.2])
                asyncio.get_running_loop().call_later(delay, kill.set)
            await until_killed(disk, life(), kill)
        async with disk.open() as store:
            await check(person, store)
    finally:
        disk.close()


async def check(person: Person, store: Store) -> None:
    """Compares the store with the invariants of every mode."""
    session = await store.read(lambda reader: sessions.find(reader, str(MAIN)))
    assert session is not None
    entries = await store.read(
        lambda reader: sessions.entries(reader, session.session_id, limit=-1)
    )
    assert open_calls([entry.message for entry in entries]) == []
    prompts = [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]
    rows = [name for prompt in prompts for name in re.findall(r"m\d+\.", prompt)]
    order = list(dict.fromkeys(rows))
    assert order == sorted(order), f"somebody was overtaken: {rows} of {person.plan}"
    times = Counter(rows)
    for name, mode in person.plan:
        result = await store.read(partial(runs.find, run_id=RunId(name)))
        assert isinstance(result, RunResult), f"forgotten: {name} of {person.plan}"
        dropped = result.error is not None and result.error.code == "queue.full"
        most = 2 if mode is QueueMode.STEER_BACKLOG else 1
        assert (0 if dropped else 1) <= times[name] <= most, f"{name} in {rows} of {person.plan}"


def explored(home: Path, monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
    """Plays so many schedules."""
    run_workers_in_the_loop(monkeypatch)
    content = template(home)
    detangle.explore(
        partial(schedule, home, content),
        runs=runs,
        seed=SEED,
        strategy="random",
        database=False,
        name="steering",
    )


def test_messages_enter_in_the_order_in_which_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explored(tmp_path, monkeypatch, SCHEDULES)


async def _steers_past_the_lane(queue: queueing.Queue, run: ActiveRun) -> None:
    """Lets a message that steers enter whatever waits before it, as before issue 11."""
    host = queue.runtime.running.working(run.request.key)
    if host is not None and run.rules is not None and run.rules.mode is QueueMode.STEER:
        host.steering.append(run)
        queue.forget(run)


def test_a_message_that_enters_past_others_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing.Queue, "arrange", _steers_past_the_lane)
    with pytest.raises(detangle.BugFound, match="somebody was overtaken"):
        explored(tmp_path, monkeypatch, SCHEDULES)
