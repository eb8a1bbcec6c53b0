"""The partial text that a run stores while the model answers."""

from pathlib import Path

import anyio

from skerry.runtime.loop_ports import CHECKPOINT_CHARS
from skerry.store import Unit, runs
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import Core, open_core, request


async def partial_text(core: Core) -> str:
    """Returns the stored partial text."""
    await core.store.write(lambda _: None)  # after the posted writes
    (run,) = await core.store.read(runs.unfinished)
    return run.partial


async def begun(core: Core, gate: ReplyGate) -> None:
    await core.dispatch.submit(request("hi"))
    with anyio.fail_after(60):
        await gate.reached.wait()


async def test_every_2_kb_of_an_answer_are_kept(tmp_path: Path) -> None:
    gate, half = ReplyGate(), "x" * (CHECKPOINT_CHARS // 2)
    async with open_core(tmp_path, ScriptedModel([[half, half, "y", gate]])) as core:
        await begun(core, gate)
        assert await partial_text(core) == half + half
        gate.open()


async def test_what_a_model_said_before_it_fell_silent_is_kept_after_a_second(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half an answer", gate]])) as core:
        await begun(core, gate)
        with anyio.fail_after(60):
            while await partial_text(core) != "half an answer":  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.05)
        gate.open()


async def test_what_is_kept_of_a_long_answer_does_not_cost_the_square_of_its_length(
    tmp_path: Path,
) -> None:
    def watch(unit: Unit) -> None:
        unit.execute("CREATE TABLE written (length INTEGER)")
        unit.execute(
            "CREATE TRIGGER watch AFTER UPDATE OF partial ON run BEGIN"
            " INSERT INTO written VALUES (length(NEW.partial)); END"
        )

    gate, chunks = ReplyGate(), ["x" * 1024] * 512
    async with open_core(tmp_path, ScriptedModel([[*chunks, gate]])) as core:
        await core.store.write(watch)
        await begun(core, gate)
        assert len(await partial_text(core)) > len(chunks) * 1024 * 8 // 9
        rows = await core.store.read(lambda reader: reader.all("SELECT length FROM written"))
        assert sum(length for (length,) in rows) < 12 * len(chunks) * 1024
        gate.open()
