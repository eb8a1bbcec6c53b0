"""A run whose start or end cannot be stored still ends: stored, and announced once."""

from pathlib import Path

import anyio

from skerry.infra.clock import SystemClock
from skerry.model.ids import RunId
from skerry.model.queue import QueueMode
from skerry.model.run import AdmissionStatus, RunResult, StopReason
from skerry.runtime.recovery import recover
from skerry.store import Reader, Unit, runs
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.chaos import transcript_faults
from tests.support.core import Core, open_core, request
from tests.support.hooks import READ, from_alice, parts

HALF = "half a pair: \ud800"
"""Text that nothing can store."""


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def again(core: Core, run_id: str) -> AdmissionStatus:
    """Returns the answer to a repeated id."""
    return (await core.dispatch.submit(request("again", run_id))).status


async def nothing_is_open(core: Core) -> None:
    assert await core.store.read(runs.unfinished) == []
    assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []


async def test_an_end_that_cannot_be_stored_is_stored_as_a_failure(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["looking", READ], [HALF], ["fine"]])) as core:
        await core.dispatch.submit(from_alice("hi"))
        result = await ended(core, "hi")
        assert (result.stop_reason, result.payloads) == (StopReason.ERROR, ())
        assert transcript_faults("s", await core.transcript()) == []
        texts = await parts(core)
        assert len(texts) == 1
        assert texts[0].startswith("⚠️ I could not answer")
        assert await again(core, "hi") is AdmissionStatus.FINISHED
        await nothing_is_open(core)
        assert len(core.ends()) == 1
        assert (await core.ask("next")).payloads == ("fine",)


async def test_who_had_entered_a_run_whose_end_cannot_be_stored_is_told_too(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "one"], [HALF]])) as core:
        await core.dispatch.submit(request("host"))
        await gate.reached.wait()
        await core.dispatch.submit(request("guest", queue_mode=QueueMode.STEER))
        gate.open()
        assert (await ended(core, "guest")).joined == "host"
        await nothing_is_open(core)
        assert transcript_faults("s", await core.transcript()) == []


async def test_a_run_that_cannot_begin_ends_and_does_not_run_at_the_next_start(
    tmp_path: Path,
) -> None:
    def damage(unit: Unit) -> None:
        unit.execute("UPDATE session SET compacted = 'no number'")

    def mend(unit: Unit) -> None:
        unit.execute("UPDATE session SET compacted = 0")

    def tails(reader: Reader) -> list[tuple[int, ...]]:
        return reader.all("SELECT tail, (SELECT max(seq) FROM entry) FROM session")

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await core.ask("first")
        await core.store.write(damage)
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await core.dispatch.submit(from_alice("hi"))
        assert (await ended(core, "hi")).stop_reason is StopReason.ERROR
        assert len(await parts(core)) == 1
        assert await again(core, "hi") is AdmissionStatus.FINISHED
        await core.store.write(mend)
        await nothing_is_open(core)
        assert await core.store.read(tails) == [(4, 4)]
