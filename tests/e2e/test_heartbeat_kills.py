"""A gateway killed at each named moment of a heartbeat tells its owner of a finding once."""

from pathlib import Path

import pytest

from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, ScriptedModels
from tests.e2e.test_heartbeat import HALF, WORK, Mind
from tests.support.chaos import until
from tests.support.jobs import START, Jobs, jobs
from tests.support.moments import Moments

POINTS = ("heartbeat.started:1", "internal.ended:1", "heartbeat.settled:1")
FOUND = "The frogs are gone."
CONFIG = {"agents": {"defaults": {"heartbeat": {}, "userTimezone": "UTC"}}}


def mind() -> ScriptedModels:
    return ScriptedModels(ScriptedModel(Mind(FOUND)))


def look(rig: Jobs) -> None:
    rig.clock.advance(HALF)
    rig.life.gateway.context.signals.set("heartbeat")


@pytest.mark.parametrize("moment", POINTS)
async def test_a_finding_is_told_once_over_a_kill(tmp_path: Path, moment: str) -> None:
    moments = Moments(tmp_path / "now", tmp_path / "moments", frozenset({moment}))
    clock = FakeClock(START)
    async with jobs(moments.folder, mind(), clock=clock, config=CONFIG, reach=moments.reach) as rig:
        moments.turn = rig.life.gateway.context.store._writer.turn
        await rig.write()
        (rig.life.home / "workspace" / "HEARTBEAT.md").write_text(WORK)
        look(rig)
        await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
    async with jobs(moments[moment], mind(), clock=clock) as again:
        await until(lambda: again.texts() == ["hello", FOUND], again.texts)
        look(again)  # the same finding is not told again within a day
        event = await again.ask("last-heartbeat")
        while event["status"] != "skipped":
            event = await again.ask("last-heartbeat")
        assert event["reason"] == "duplicate"
        assert again.texts() == ["hello", FOUND]
