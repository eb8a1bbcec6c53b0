"""A gateway killed at each named moment of a job runs it once, and delivers its reply once."""

from pathlib import Path

import pytest

from skerry.testing.clock import FakeClock
from tests.support.chaos import until
from tests.support.jobs import HOUR, START, jobs
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
