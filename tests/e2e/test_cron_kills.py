"""A gateway killed at each named moment of a job runs it once, and delivers its reply once."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.model.ids import AgentId, SessionKey
from skerry.store import DATABASE, backups
from skerry.store.backups import BackupKind
from skerry.store.restore import restore
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels
from tests.support.chaos import until
from tests.support.jobs import HOUR, START, Jobs, jobs
from tests.support.moments import Moments

POINTS = (
    "internal.started:1",
    "cron.claimed:1",
    "internal.ended:1",
    "internal.settled:1",
    "cron.settled:1",
)


@pytest.mark.parametrize("moment", POINTS)
async def test_a_job_whose_gateway_is_killed_runs_once(tmp_path: Path, moment: str) -> None:
    moments = Moments(tmp_path / "now", tmp_path / "moments", frozenset({moment}))
    clock = FakeClock(START)
    async with jobs(moments.folder, clock=clock, reach=moments.reach) as rig:
        moments.turn = rig.life.gateway.context.store._writer.turn
        await rig.write()
        job = await rig.add()
        rig.pass_time(HOUR)
        await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
    async with jobs(moments[moment], clock=clock) as again:
        await again.runs(1)
        await until(lambda: len(again.texts()) == 2, again.texts)
        again.pass_time(HOUR)
        entries = await again.runs(2)
        await until(lambda: len(again.texts()) == 3, again.texts)
        assert [entry["dueAtMs"] for entry in entries] == [START + HOUR, START + 2 * HOUR]
        assert (await again.job(job))["nextRunAtMs"] == START + 3 * HOUR


async def test_a_job_that_is_due_when_its_gateway_is_killed_runs_at_the_next_start(
    tmp_path: Path,
) -> None:
    clock = FakeClock(START)
    async with jobs(tmp_path, clock=clock) as rig:
        await rig.add()
    clock.advance(HOUR)
    async with jobs(tmp_path, clock=clock) as again:
        (entry,) = await again.runs(1)
        assert (entry["dueAtMs"], entry["status"]) == (START + HOUR, "ok")


ONCE = {"kind": "at", "at": "2026-11-24T12:30:00Z"}


async def off(rig: Jobs, job: str, reason: str) -> None:
    """Waits for the end of the job's first run, and shows that it has no second one."""
    (entry,) = await rig.runs(1)
    assert entry["status"] == "error"
    await until(lambda: reason in rig.texts()[-1], rig.texts)
    stored = await rig.job(job)
    assert (stored["enabled"], stored.get("nextRunAtMs")) == (False, None)


async def test_a_one_time_job_whose_run_was_interrupted_is_not_repeated(tmp_path: Path) -> None:
    moments = Moments(tmp_path / "now", tmp_path / "moments", frozenset({"cron.claimed:1"}))
    clock = FakeClock(START)
    async with jobs(moments.folder, clock=clock, reach=moments.reach) as rig:
        moments.turn = rig.life.gateway.context.store._writer.turn
        await rig.write()
        job = await rig.add(schedule=ONCE)
        rig.pass_time(HOUR)
        await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
    folder = moments["cron.claimed:1"]
    with closing(sqlite3.connect(folder / "home" / DATABASE)) as database:  # a call had an effect
        database.execute("UPDATE run SET left_trace = 1, restarts = 1000 WHERE result IS NULL")
        database.commit()
    async with jobs(folder, clock=clock) as again:
        await off(again, job, "was interrupted and is not repeated")


async def test_a_one_time_job_whose_run_a_person_stops_is_not_repeated(tmp_path: Path) -> None:
    gate = ReplyGate()
    models = ScriptedModels(ScriptedModel([["echo: hello"], [gate]]))
    async with jobs(tmp_path, models) as rig:
        await rig.write()
        job = await rig.add(schedule=ONCE)
        rig.pass_time(HOUR)
        with anyio.fail_after(60):
            await gate.reached.wait()
        rig.life.gateway.dispatch.abort(SessionKey(AgentId("main"), ("cron", job)), None, "ann")
        await off(rig, job, "its run was stopped")


async def test_jobs_that_ran_after_a_backup_are_not_run_again_when_it_is_restored(
    tmp_path: Path,
) -> None:
    clock, home = FakeClock(START), tmp_path / "home"
    async with jobs(tmp_path, clock=clock) as rig:
        hourly, once = await rig.add(), await rig.add(schedule=ONCE, deleteAfterRun=False)
        backup = backups.create(home, BackupKind.MANUAL, clock.now_ms())
        rig.pass_time(HOUR)
        await rig.runs(2)
    restore(home, backup, clock.now_ms())
    async with jobs(tmp_path, clock=clock) as again:
        again.pass_time(HOUR)
        entries = await again.runs(3)
        assert sorted(entry["dueAtMs"] for entry in entries) == [
            START + HOUR // 2,
            START + HOUR,
            START + 2 * HOUR,
        ]
        assert (await again.job(hourly))["nextRunAtMs"] == START + 3 * HOUR
        assert not (await again.job(once))["enabled"]


@pytest.mark.parametrize("schedule", [ONCE, {"kind": "every", "everyMs": HOUR}])
async def test_the_end_of_a_run_that_was_open_in_a_backup_is_kept_when_it_is_restored(
    tmp_path: Path, schedule: dict[str, object]
) -> None:
    clock, home, gate = FakeClock(START), tmp_path / "home", ReplyGate()
    models = ScriptedModels(ScriptedModel([[gate, "counted"]]))
    async with jobs(tmp_path, models, clock=clock) as rig:
        job = await rig.add(schedule=schedule, deleteAfterRun=False)
        rig.pass_time(HOUR)
        with anyio.fail_after(60):
            await gate.reached.wait()
        backup = backups.create(home, BackupKind.MANUAL, clock.now_ms())
        gate.opened.set()
        (before,) = await rig.runs(1)
        assert (before["status"], before["summary"]) == ("ok", "counted")
    restore(home, backup, clock.now_ms())
    async with jobs(tmp_path, clock=clock) as again:
        stored: dict[str, Any] = {}
        with anyio.fail_after(60):
            while "lastStatus" not in stored:
                stored = (await again.job(job))["state"]
        assert await again.runs(1) == [before]
        assert (await again.job(job))["enabled"] == (schedule is not ONCE)
        assert (stored["lastStatus"], stored.get("consecutiveErrors", 0)) == ("ok", 0)
