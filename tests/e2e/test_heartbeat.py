"""Heartbeats on a clock that the test moves: the calls of models, and the messages to the owner."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.model.message import UserMessage
from skerry.ports.model import ModelRequest
from skerry.store import tasks
from skerry.testing.model import ScriptedModel, ScriptedModels, Step
from tests.support.chaos import until
from tests.support.jobs import HOUR, MINUTE, Jobs, jobs
from tests.support.wire import connected

HALF = 30 * MINUTE
WORK = "# Heartbeat\n- Check the pond\n"


class Mind:
    """Answers people at once, and heartbeats with the text that the test sets."""

    def __init__(self, reply: str | Exception = "HEARTBEAT_OK") -> None:
        self.reply = reply
        self.asked: list[ModelRequest] = []
        self.texts: list[str] = []
        self.models: list[str | None] = []
        """Models that were asked for, by name."""

    def __call__(self, request: ModelRequest) -> Sequence[Step]:
        said = next(
            message
            for message in reversed(request.history.messages)
            if isinstance(message, UserMessage)
        )
        if "heartbeat" not in said.text and "Pond" not in said.text:
            return ["hello"]
        self.asked.append(request)
        self.texts.append(said.text)
        if isinstance(self.reply, Exception):
            raise self.reply
        return [self.reply]


@asynccontextmanager
async def beating(
    folder: Path, mind: Mind, file: str | None = WORK, **heartbeat: Any
) -> AsyncGenerator[Jobs]:
    """Runs a gateway whose owner has a chat, with that HEARTBEAT.md."""
    config = {"agents": {"defaults": {"heartbeat": heartbeat, "userTimezone": "UTC"}}}
    models = ScriptedModels(ScriptedModel(mind), chosen=mind.models)
    async with jobs(folder, models, config=config) as rig:
        await rig.write()
        if file is not None:
            (rig.life.home / "workspace" / "HEARTBEAT.md").write_text(file)
        yield rig


async def tick(rig: Jobs, milliseconds: int = HALF) -> None:
    """Lets time pass, and waits until the heartbeat of the agent was looked at."""
    store, signals = rig.life.gateway.context.store, rig.life.gateway.context.signals
    rig.clock.advance(milliseconds)
    now = rig.clock.now_ms()
    with anyio.fail_after(60):
        while await store.read(lambda reader: tasks.done_at(reader, "heartbeat.main")) != now:
            signals.set("heartbeat")
            await anyio.sleep(0.01)


async def last(rig: Jobs, status: str) -> dict[str, Any]:
    """Waits for a last heartbeat of this time with the status; returns its event."""
    event: dict[str, Any] = {}
    with anyio.fail_after(60):
        while (event.get("status"), event.get("ts")) != (status, rig.clock.now_ms()):
            event = await rig.ask("last-heartbeat") or {}
    return event


@pytest.mark.requirement("heartbeat-purpose")
@pytest.mark.requirement("heartbeat-target")
async def test_a_finding_goes_to_the_owners_last_chat(tmp_path: Path) -> None:
    mind = Mind("The frogs are gone.")
    async with beating(tmp_path, mind) as rig:
        await tick(rig)
        event = await last(rig, "sent")
        await until(lambda: rig.texts()[1:] == ["The frogs are gone."], rig.texts)
        assert (event["to"], event["preview"]) == ("ann", "The frogs are gone.")
        status = await rig.ask("heartbeat.status")
        (row,) = status["agents"]
        assert (status["enabled"], row["agentId"], row["everyMs"]) == (True, "main", HALF)
        assert (row["last"], row["lastLookAtMs"]) == (event, rig.clock.now_ms())
        assert "Check the pond" in mind.asked[0].system
        assert "SOUL" not in mind.asked[0].system


@pytest.mark.requirement("heartbeat-target")
@pytest.mark.requirement("gateway-events-heartbeat-cron")
@pytest.mark.parametrize(
    ("settings", "to"), [({"target": "memory", "to": "bob"}, "bob"), ({"target": "none"}, None)]
)
async def test_a_finding_goes_to_the_chat_that_is_configured_or_to_none(
    tmp_path: Path, settings: dict[str, str], to: str | None
) -> None:
    async with beating(tmp_path, Mind("The frogs are gone."), **settings) as rig:
        address = rig.life.address
        async with connected(address.url, auth={"token": address.token}) as wire:
            await tick(rig)
            event = (await wire.event("heartbeat"))["payload"]
        assert (event["status"], event.get("to"), event["silent"]) == ("sent", to, to is None)


@pytest.mark.requirement("heartbeat-ok-suppressed")
async def test_an_acknowledgement_is_neither_sent_nor_kept(tmp_path: Path) -> None:
    async with beating(tmp_path, Mind()) as rig:
        await tick(rig)
        await last(rig, "ok-token")
        rows = (await rig.ask("sessions.list"))["sessions"]
        assert [row["key"] for row in rows] == ["agent:main:main"]
        assert rig.texts() == ["hello"]


async def test_the_same_finding_is_sent_again_only_after_a_day(tmp_path: Path) -> None:
    mind = Mind("The frogs are gone.")
    async with beating(tmp_path, mind) as rig:
        await tick(rig)
        await last(rig, "sent")
        for _ in range(2):
            await tick(rig)
            assert (await last(rig, "skipped"))["reason"] == "duplicate"
        await tick(rig, 24 * HOUR)
        await last(rig, "sent")
        await until(lambda: rig.texts() == ["hello", *["The frogs are gone."] * 2], rig.texts)


@pytest.mark.parametrize(
    ("file", "heartbeat", "reason"),
    [
        pytest.param(None, {}, "empty-heartbeat-file", id="template"),
        pytest.param("# Heartbeat\n- \n", {}, "empty-heartbeat-file", id="empty"),
        pytest.param(WORK, {"target": "telegram"}, "no-route", id="route"),
        pytest.param(
            WORK, {"activeHours": {"start": "00:00", "end": "01:00"}}, "quiet-hours", id="hours"
        ),
    ],
)
@pytest.mark.requirement("heartbeat-active-hours-gating")
async def test_no_model_is_asked_without_work_a_route_or_in_quiet_hours(
    tmp_path: Path, file: str | None, heartbeat: dict[str, Any], reason: str
) -> None:
    mind = Mind()
    async with beating(tmp_path, mind, file, **heartbeat) as rig:
        await tick(rig)
        assert (await last(rig, "skipped"))["reason"] == reason
        assert " " in (await rig.ask("heartbeat.status"))["reasons"][reason]
        assert mind.asked == []


@pytest.mark.requirement("heartbeat-model")
@pytest.mark.requirement("heartbeat-prompt")
async def test_a_prompt_of_its_own_takes_the_place_of_the_usual_one(tmp_path: Path) -> None:
    mind = Mind()
    async with beating(tmp_path, mind, prompt="Pond?", target="none", model="test/small") as rig:
        assert "test/small" not in mind.models
        await tick(rig)
        await last(rig, "ok-token")
        assert mind.texts[0].startswith("Pond?")
        assert "test/small" in mind.models


async def test_heartbeats_stop_after_failures_in_a_row_and_say_so_once(tmp_path: Path) -> None:
    mind = Mind(RuntimeError("frozen"))
    async with beating(tmp_path, mind, maxFailures=2) as rig:
        for _ in range(2):
            await tick(rig)
            await last(rig, "failed")
        await tick(rig)
        assert (await last(rig, "skipped"))["reason"] == "too-many-failures"
        await until(lambda: "Heartbeats have stopped" in rig.texts()[-1], rig.texts)
        assert len(rig.texts()) == 2
        mind.reply = "HEARTBEAT_OK"
        await rig.ask("set-heartbeats", enabled=True)
        await tick(rig)
        await last(rig, "ok-token")


async def test_switched_off_heartbeats_ask_nobody_over_a_restart(tmp_path: Path) -> None:
    mind = Mind()
    async with beating(tmp_path, mind) as rig:
        assert await rig.ask("set-heartbeats", enabled=False) == {"ok": True, "enabled": False}
    async with jobs(tmp_path, ScriptedModels(ScriptedModel(mind)), clock=rig.clock) as again:
        again.clock.advance(9 * HOUR)
        again.life.gateway.context.signals.set("heartbeat")
        assert await again.ask("last-heartbeat") is None
        assert mind.asked == []


async def test_a_week_without_work_costs_no_token_and_one_with_work_asks_at_each_interval(
    tmp_path: Path,
) -> None:
    mind = Mind()
    async with beating(tmp_path, mind, None) as rig:
        for _ in range(7 * 8):
            await tick(rig, 3 * HOUR)
        assert mind.asked == []
        (rig.life.home / "workspace" / "HEARTBEAT.md").write_text(WORK)
        for number in range(1, 9):
            await tick(rig)
            await last(rig, "ok-token")
            assert len(mind.asked) == number


async def test_a_job_for_the_next_heartbeat_waits_for_it(tmp_path: Path) -> None:
    async with beating(tmp_path, Mind(), every="2h") as rig:
        await tick(rig, 2 * HOUR)
        payload = {"kind": "systemEvent", "text": "the kettle boils"}
        schedule = {"kind": "every", "everyMs": HOUR}
        await rig.add(schedule=schedule, payload=payload, wakeMode="next-heartbeat")
        rig.pass_time(HOUR + MINUTE)
        await anyio.sleep(0.2)
        assert (await rig.ask("cron.runs"))["entries"] == []
        await tick(rig, HOUR)
        (entry,) = await rig.runs(1)
        assert entry["sessionKey"] == "agent:main:main"


async def test_a_job_for_the_next_heartbeat_runs_while_heartbeats_are_off(tmp_path: Path) -> None:
    mind = Mind()
    async with beating(tmp_path, mind, every="2h") as rig:
        await tick(rig, 2 * HOUR)
        await last(rig, "ok-token")
        checks = len(mind.asked)
        await rig.ask("set-heartbeats", enabled=False)
        payload = {"kind": "systemEvent", "text": "the kettle boils"}
        schedule = {"kind": "every", "everyMs": HOUR}
        await rig.add(schedule=schedule, payload=payload, wakeMode="next-heartbeat")
        await tick(rig, 2 * HOUR)
        (entry,) = await rig.runs(1)
        assert entry["sessionKey"] == "agent:main:main"
        assert len(mind.asked) == checks, "no check asked the model"
