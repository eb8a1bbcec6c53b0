"""Runs of cron jobs beside each other, their log, and the conversations that they leave."""

from pathlib import Path

import anyio
import pytest

from skerry.features.cron import job_records
from skerry.features.cron.errors import JobRunningError
from skerry.features.cron.execution import Execution
from skerry.model import message
from skerry.store import Unit, sessions
from skerry.store.retention import retained
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels
from tests.support.jobs import HOUR, Jobs, jobs

DAY = 24 * HOUR
ONCE = {"kind": "at", "at": "2026-11-24T12:30:00Z"}


async def test_a_job_that_two_requests_start_at_once_runs_once(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with jobs(tmp_path, ScriptedModels(ScriptedModel([[gate, "one"], ["two"]]))) as rig:
        job_id, context = await rig.add(), rig.life.gateway.context
        job = await context.store.read(lambda reader: job_records.get(reader, job_id))
        assert job is not None
        assert context.internal_runs is not None
        execution, now = Execution(context, context.internal_runs), context.clock.now_ms()
        await execution.start(job, now, "manual")
        with pytest.raises(JobRunningError):  # it was read before the other began
            await execution.start(job, now + 1, "manual")
        with anyio.fail_after(60):
            await gate.reached.wait()
        answer = await rig.ask("cron.run", id=job_id)
        assert (answer["enqueued"], answer["reason"]) == (False, "already-running")
        gate.open()
        (entry,) = await rig.runs(1)
        assert entry["summary"] == "one"
        rig.pass_time(HOUR)
        assert len(await rig.runs(2)) == 2


async def test_a_damaged_row_of_the_log_hides_no_other(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        await rig.add()
        rig.pass_time(HOUR)
        (first,) = await rig.runs(1)
        rig.pass_time(HOUR)
        await rig.runs(2)
        due_at = first["dueAtMs"]

        def damage(unit: Unit) -> None:
            unit.execute("UPDATE cron_run SET body = ? WHERE due_at = ?", (b"{", due_at))

        await rig.life.gateway.context.store.write(damage)
        entries = (await rig.ask("cron.runs"))["entries"]
        assert [entry["dueAtMs"] for entry in entries] == [due_at + HOUR]


async def conversations(rig: Jobs) -> list[str]:
    rows = await rig.life.gateway.context.store.read(retained)
    return sorted({row.key.rpartition(":")[2] for row in rows if ":cron:" in row.key})


async def test_conversations_of_removed_jobs_are_removed_after_their_time(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        store = rig.life.gateway.context.store
        yearly = await rig.add(schedule={"kind": "every", "everyMs": 300 * DAY})
        await rig.ask("cron.run", id=yearly)
        await rig.runs(1)
        gone, answered = await rig.add(schedule=ONCE), await rig.add(schedule=ONCE)
        rig.pass_time(HOUR)
        await rig.runs(3)
        key = f"agent:main:cron:{answered}"

        def write(unit: Unit) -> None:
            session = sessions.find(unit, key)
            assert session is not None
            words = [message.user("thanks", 1)]
            sessions.append(unit, session.session_id, session.tail, "", words, 1, person_wrote_at=1)

        await store.write(write)
        assert await conversations(rig) == sorted([yearly, gone, answered])
        hourly = await rig.add()
        rig.pass_time(HOUR)
        await rig.runs(4)
        assert await conversations(rig) == sorted([yearly, gone, answered, hourly])
        rig.pass_time(2 * DAY)
        await rig.runs(5)
        assert await conversations(rig) == sorted([yearly, answered, hourly])
