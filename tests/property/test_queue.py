"""Queue modes in random orders: a model of what must become of each message, against the gateway.

Whatever the modes, the policy and the moments at which runs end: nothing is answered twice, nobody
is forgotten, nothing overtakes what came before it, and the transcript has each text as it must.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skerry.config.messages import QueueConfig
from skerry.lanes import active_runs, collected_prompt
from skerry.lanes.active_runs import ActiveRun, Batch
from skerry.model.message import UserMessage
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.run import RunResult, StopReason
from skerry.ports.model import ModelRequest
from skerry.runtime import queue as queue_module
from skerry.store import runs
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from tests.support.core import MAIN, Core, open_core, request
from tests.support.shown import examples, shown

Plan = list[tuple[QueueMode | None, int]]
"""What is done in order: so many messages of a mode are said, or the run that is on ends."""
said = st.tuples(st.sampled_from([*QueueMode, QueueMode.COLLECT]), st.integers(1, 4))
steps = st.lists(said | said | st.just((None, 1)), min_size=3, max_size=6)
PARTS = re.compile(
    rf"{re.escape(collected_prompt.TITLE)}|---\nQueued #\d+\n|\[Queue overflow\][^\n]*|- |Summary:"
)


@dataclass
class Player:
    """Plays a plan: says `m0`, `m1`, ... and lets the run that is on end when the plan says so."""

    core: Core
    gates: list[ReplyGate]
    patience: float
    said: list[tuple[str, QueueMode]] = field(default_factory=list)

    async def say(self, mode: QueueMode) -> None:
        name = f"m{len(self.said)}."
        self.said.append((name, mode))
        await self.core.dispatch.submit(request(name, queue_mode=mode))
        await anyio.wait_all_tasks_blocked()

    async def end(self) -> None:
        """Lets what is at the model go on, and waits until something is there again, or nothing."""
        for gate in self.gates:
            gate.open()
        self.gates.clear()
        with anyio.fail_after(self.patience):
            while self.core.dispatch.active(MAIN) and not any(  # noqa: ASYNC110 - as said below
                gate.reached.is_set() for gate in self.gates
            ):
                await anyio.sleep(0.001)  # the store's thread works; there is no event for all

    async def results(self) -> dict[str, RunResult]:
        while self.core.dispatch.active(MAIN):
            await self.end()
        found = {}
        for name, _ in self.said:
            result = await self.core.store.read(lambda reader, n=name: runs.find(reader, n))  # type: ignore[misc]
            assert isinstance(result, RunResult), f"forgotten: {name}"
            found[name] = result
        return found


async def play(plan: Plan, cap: int, drop: DropPolicy, folder: Path, patience: float = 60) -> None:
    gates: list[ReplyGate] = []

    def script(_: ModelRequest) -> list[Step]:
        gates.append(ReplyGate())
        return [gates[-1], "ok"]

    queue = QueueConfig(debounce_ms=0, cap=cap, drop=drop)
    async with open_core(folder, ScriptedModel(script), queue=queue) as core:
        player = Player(core, gates, patience)
        for mode, times in plan:
            for _ in range(times):
                await (player.end() if mode is None else player.say(mode))
        results = await player.results()
        messages = await core.transcript() if player.said else []
        prompts = [message.text for message in messages if isinstance(message, UserMessage)]
    check(player.said, results, prompts, core)


def check(
    said: list[tuple[str, QueueMode]],
    results: dict[str, RunResult],
    prompts: list[str],
    core: Core,
) -> None:
    """Compares with what must be true."""
    ends = Counter(end.run_id for end in core.ends())
    assert ends == Counter(list(results)), "an end was told twice, or never"
    texts = [part.strip() for prompt in prompts for part in PARTS.split(prompt) if part.strip()]
    written = Counter(texts)
    interrupted = any(mode is QueueMode.INTERRUPT for _, mode in said)
    for name, mode in said:
        result = results[name]
        dropped = result.error is not None
        most = 2 if mode is QueueMode.STEER_BACKLOG else 1
        assert (0 if dropped else 1) <= written[name] <= most, (
            f"{name} is there {written[name]} times"
        )
        if dropped:
            assert result.error is not None
            assert result.error.code == "queue.full"
            assert mode not in {QueueMode.OWN_RUN, QueueMode.INTERRUPT}
        elif (
            mode in {QueueMode.OWN_RUN, QueueMode.FOLLOWUP, QueueMode.INTERRUPT} and not interrupted
        ):
            head = collected_prompt.summary([""])[:16]
            overflown = any(head in prompt and name in prompt for prompt in prompts)
            assert overflown or ("ok" in result.payloads and result.joined is None), name
        if result.stop_reason is StopReason.ABORTED:
            assert interrupted
    # What keeps its place is answered in the order in which it was said.
    kept = [name for name, mode in said if mode in {QueueMode.OWN_RUN, QueueMode.COLLECT}]
    order = [text for text in texts if text in kept]
    assert order == [name for name in kept if name in order], "somebody overtook"


RUNS = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ASKED = given(plan=steps, cap=st.integers(1, 4), drop=st.sampled_from(DropPolicy))


def played(patience: float, plan: Plan, cap: int, drop: DropPolicy) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(play, plan, cap, drop, Path(folder), patience)


def test_every_message_becomes_what_its_mode_says() -> None:
    RUNS(ASKED(played))(60)


def _loses_the_first(front: ActiveRun, behind: list[ActiveRun]) -> Batch:
    batch = _BATCH(front, behind)
    return Batch(batch.runs[1:], 0) if len(batch.runs) > 1 else batch


def _says_twice(front: ActiveRun, behind: list[ActiveRun]) -> Batch:
    batch = _BATCH(front, behind)
    return Batch((batch.runs[0], *batch.runs), 0) if len(batch.runs) > 1 else batch


def _overtakes(front: ActiveRun, behind: list[ActiveRun]) -> Batch:
    batch = _BATCH(front, behind)
    return Batch(batch.runs[::-1], 0)


_BATCH = active_runs.batch


@pytest.mark.parametrize("defect", [_loses_the_first, _says_twice, _overtakes])
def test_a_defect_would_be_found(
    defect: Callable[[ActiveRun, list[ActiveRun]], Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "batch", defect)
    with pytest.raises((AssertionError, ExceptionGroup, TimeoutError)):
        shown(RUNS)(ASKED(played))(3)  # a run may never end
