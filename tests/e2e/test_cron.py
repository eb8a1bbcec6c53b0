"""Cron in a gateway on a clock that the test moves: when jobs run, and where their replies go."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.model.errors import GatewayRefusedError
from skerry.model.message import ToolCall, ToolResultMessage, UserMessage
from skerry.ports.model import ModelRequest
from skerry.store import Unit, archive, runs
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, ScriptedModels, Step
from tests.support.chaos import until
from tests.support.jobs import HOUR, MINUTE, START, jobs
from tests.support.wire import connected

TURN = {"kind": "agentTurn", "message": "count"}


def failing() -> ScriptedModels:
    """Returns models that answer people and fail for jobs."""

    def answer(request: ModelRequest) -> list[Step]:
        said = next(
            message
            for message in reversed(request.history.messages)
            if isinstance(message, UserMessage)
        )
        if "[cron:" in said.text:
            raise RuntimeError("the pond is frozen")
        return [f"echo: {said.text}"]

    return ScriptedModels(ScriptedModel(answer))


@pytest.mark.requirement("session-key-cron")
@pytest.mark.requirement("session-cron-isolated-fresh")
@pytest.mark.requirement("agent-internal-entry-points")
async def test_a_job_runs_when_it_is_due_each_time_in_a_new_session(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        job = await rig.add()
        rig.pass_time(HOUR)
        await rig.runs(1)
        rig.pass_time(HOUR)
        entries = await rig.runs(2)
        assert [entry["status"] for entry in entries] == ["ok", "ok"]
        assert [entry["dueAtMs"] for entry in entries] == [START + HOUR, START + 2 * HOUR]
        assert {entry["sessionKey"] for entry in entries} == {f"agent:main:cron:{job}"}
        assert len({entry["sessionId"] for entry in entries}) == 2
        assert "count" in entries[0]["summary"]


async def test_the_reply_goes_to_the_owners_last_chat_once(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        await rig.write()
        await rig.add()
        rig.pass_time(HOUR)
        (entry,) = await rig.runs(1)
        await until(lambda: len(rig.texts()) == 2, rig.texts)
        assert "count" in rig.texts()[1]

        async def delivered() -> bool:
            return bool((await rig.runs(1))[0]["deliveryStatus"] == "delivered")

        assert entry["status"] == "ok"
        while not await delivered():
            pass


async def test_without_a_chat_the_log_has_the_reply_and_the_run_counts_as_good(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        await rig.add()
        rig.pass_time(HOUR)
        (entry,) = await rig.runs(1)
        assert (entry["status"], entry["deliveryStatus"]) == ("ok", "not-requested")
        assert "count" in entry["summary"]


async def test_a_named_chat_gets_the_reply_and_none_gets_that_of_a_silent_job(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        await rig.write()
        to = {"mode": "announce", "channel": "memory", "to": "ben"}
        await rig.add(name="for ben", delivery=to)
        await rig.add(name="silent", delivery={"mode": "none"})
        rig.pass_time(HOUR)
        await rig.runs(2)
        await until(lambda: len(rig.texts()) == 2, rig.texts)
        assert [message.peer for message in rig.life.platform.received()] == ["ann", "ben"]


async def test_what_was_missed_while_no_gateway_ran_runs_once_at_the_start(tmp_path: Path) -> None:
    clock = FakeClock(START)
    async with jobs(tmp_path, clock=clock) as rig:
        await rig.add()
        once = {"kind": "at", "at": "2026-11-24T15:00:00Z"}
        await rig.add(name="reminder", schedule=once)
    clock.advance(50 * HOUR + MINUTE)
    async with jobs(tmp_path, clock=clock) as rig:
        entries = await rig.runs(2)
        assert {entry["trigger"] for entry in entries} == {"missed"}
        assert {entry["dueAtMs"] for entry in entries} == {START + HOUR, START + 3 * HOUR}
        (left,) = (await rig.ask("cron.list"))["jobs"]
        assert left["nextRunAtMs"] == START + 51 * HOUR
        assert all("It was due at" in entry["summary"] for entry in entries)


async def test_a_clock_that_jumps_forward_runs_a_job_once_and_one_set_back_runs_none_again(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        job = await rig.add()
        rig.pass_time(9 * HOUR + MINUTE)
        await rig.runs(1)
        assert (await rig.job(job))["nextRunAtMs"] == START + 10 * HOUR
        rig.pass_time(-8 * HOUR)

        async def planned() -> bool:
            return bool((await rig.job(job)).get("nextRunAtMs") == START + 2 * HOUR)

        while not await planned():
            pass
        rig.pass_time(HOUR)
        entries = await rig.runs(2)
        assert {entry["dueAtMs"] for entry in entries} == {START + HOUR, START + 2 * HOUR}


async def test_a_job_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    """Damaged bytes, or a job of a newer version after a downgrade."""
    async with jobs(tmp_path) as rig:
        hurt, sound = await rig.add(), await rig.add()

        def damage(unit: Unit) -> None:
            unit.execute("UPDATE cron_job SET body = ? WHERE job_id = ?", (b"{", hurt))

        await rig.life.gateway.context.store.write(damage)
        for number in (1, 2):
            rig.pass_time(HOUR)
            assert {entry["jobId"] for entry in await rig.runs(number)} == {sound}
        assert [job["id"] for job in (await rig.ask("cron.list"))["jobs"]] == [sound]
    async with jobs(tmp_path, clock=rig.clock) as again:
        again.pass_time(HOUR)
        assert {entry["jobId"] for entry in await again.runs(3)} == {sound}


async def test_a_run_that_ends_after_the_clock_was_set_back_leaves_its_job_with_a_time(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        await rig.write()  # with a chat for the reply, an id of a run is not compared by its text
        job = await rig.add()
        rig.pass_time(HOUR)
        await rig.runs(1)
        rig.clock.advance(-HOUR // 2)
        await rig.ask("cron.run", id=job, mode="force")
        await rig.runs(2)
        assert (await rig.job(job))["nextRunAtMs"] == START + HOUR, "this run was claimed before"
        rig.pass_time(HOUR // 2)
        with anyio.fail_after(60):
            while (await rig.job(job)).get("nextRunAtMs") != START + 2 * HOUR:
                pass
        rig.pass_time(HOUR)
        entries = await rig.runs(3)
        assert sorted(entry["dueAtMs"] - START for entry in entries) == [
            HOUR // 2,
            HOUR,
            2 * HOUR,
        ]
        assert all(entry["status"] == "ok" for entry in entries)


async def test_a_job_that_ran_once_is_gone_and_one_that_is_to_stay_is_switched_off(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        once = {"kind": "at", "at": "2026-11-24T12:30:00Z"}
        await rig.add(schedule=once)
        kept = await rig.add(schedule=once, deleteAfterRun=False)
        rig.pass_time(HOUR)
        await rig.runs(2)
        left = (await rig.ask("cron.list", includeDisabled=True))["jobs"]
        assert [(job["id"], job["enabled"]) for job in left] == [(kept, False)]


async def test_failures_are_tried_again_later_and_later_and_then_the_job_is_switched_off(
    tmp_path: Path,
) -> None:
    waits = []
    async with jobs(tmp_path, failing()) as rig:
        await rig.write()
        schedule = {"kind": "every", "everyMs": 1_000}
        job = await rig.add(schedule=schedule)
        for number in range(1, 11):
            payload = await rig.job(job)
            waits.append(payload["nextRunAtMs"] - rig.clock.now_ms())
            rig.pass_time(waits[-1])
            await rig.runs(number)
        assert [wait // 1000 for wait in waits] == [1, 30, 60, 300, 900, *[3600] * 5]
        off = await rig.job(job)
        assert (off["enabled"], off["state"]["consecutiveErrors"]) == (False, 10)
        await until(lambda: "was switched off" in rig.texts()[-1], rig.texts)
        assert sum("was switched off" in text for text in rig.texts()) == 1
        on = await rig.ask("cron.update", id=job, patch={"enabled": True})
        assert on["state"].get("consecutiveErrors", 0) == 0


async def test_a_job_for_the_main_conversation_is_read_there(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        await rig.write()
        await rig.add(payload={"kind": "systemEvent", "text": "the kettle boils"})
        rig.pass_time(HOUR)
        (entry,) = await rig.runs(1)
        assert entry["sessionKey"] == "agent:main:main"
        await until(lambda: len(rig.texts()) == 2, rig.texts)
        assert "the kettle boils" in rig.texts()[1]


async def test_a_job_has_the_model_the_thinking_and_the_limit_that_it_names(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        job = await rig.add(payload={**TURN, "thinking": "high", "timeoutSeconds": 5})
        rig.pass_time(HOUR)
        await rig.runs(1)
        store, key = rig.life.gateway.context.store, f"agent:main:cron:{job}"
        (run,) = await store.read(lambda reader: runs.last_ended(reader, key, 5))
        assert run.request is not None
        assert (run.request.thinking, run.request.timeout) == ("high", 5)


async def test_a_disabled_scheduler_starts_nothing_and_run_now_works(tmp_path: Path) -> None:
    async with jobs(tmp_path, config={"cron": {"enabled": False}}) as rig:
        job = await rig.add()
        rig.pass_time(9 * HOUR)
        answer = await rig.ask("cron.run", id=job)
        assert answer["enqueued"]
        (entry,) = await rig.runs(1)
        assert entry["trigger"] == "manual"


async def test_the_log_keeps_as_many_runs_of_a_job_as_configured(tmp_path: Path) -> None:
    async with jobs(tmp_path, config={"cron": {"runLog": {"keepLines": 2}}}) as rig:
        job = await rig.add()
        for _ in range(4):
            rig.pass_time(MINUTE)
            before = (await rig.job(job))["state"].get("lastRunAtMs")
            await rig.ask("cron.run", id=job)
            while (await rig.job(job))["state"].get("lastRunAtMs") in {before, None}:
                pass
        assert len((await rig.ask("cron.runs"))["entries"]) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"schedule": {"kind": "hourly"}}, "kind 'hourly'", id="kind"),
        pytest.param({"schedule": {"kind": "every"}}, "everyMs", id="interval"),
        pytest.param({"schedule": {"kind": "at", "at": "2020-01-01"}}, "has passed", id="past"),
        pytest.param({"payload": {**TURN, "argv": ["ls"]}}, "unknown property 'argv'", id="argv"),
        pytest.param({"payload": {**TURN, "thinking": "deep"}}, "thinking level", id="thinking"),
        pytest.param({"payload": {**TURN, "message": " "}}, "is empty", id="empty"),
        pytest.param({"sessionTarget": "main"}, "other kind of payload", id="target"),
        pytest.param(
            {"delivery": {"mode": "webhook", "to": "x"}}, "not an https address", id="webhook"
        ),
        *(
            pytest.param(
                {"delivery": {"mode": "webhook", "to": address}}, "not an https address", id=name
            )
            for name, address in (
                ("control", "https://h.example/\x1b[31m"),
                ("password", "https://u:p@h.example/"),
                ("host", "https:///path"),
            )
        ),
        pytest.param({"delivery": {"mode": "announce", "to": "x"}}, "its platform", id="chat"),
        pytest.param({"agentId": "nobody"}, "unknown agent", id="agent"),
    ],
)
async def test_a_job_that_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    async with jobs(tmp_path) as rig:
        with pytest.raises(GatewayRefusedError, match=reason):
            await rig.add(**change)
        assert (await rig.ask("cron.list"))["jobs"] == []


async def test_a_patch_changes_what_it_names_and_the_next_time_with_the_schedule(
    tmp_path: Path,
) -> None:
    async with jobs(tmp_path) as rig:
        job = await rig.add()
        schedule = {"kind": "cron", "expr": "0 15 * * *", "tz": "UTC"}
        patch = {"schedule": schedule, "payload": {"message": "sum"}}
        changed = await rig.ask("cron.update", id=job, patch=patch)
        assert changed["nextRunAtMs"] == START + 3 * HOUR
        assert changed["payload"] == {"kind": "agentTurn", "message": "sum"}
        assert changed["name"] == "frogs"
        wrongs: tuple[dict[str, Any], ...] = ({"id": "other"}, {"state": {}})
        for wrong in wrongs:
            with pytest.raises(GatewayRefusedError, match="cannot be changed"):
                await rig.ask("cron.update", id=job, patch=wrong)
        with pytest.raises(GatewayRefusedError, match="Unknown cron job"):
            await rig.ask("cron.update", id="none", patch={})


@pytest.mark.requirement("gateway-events-heartbeat-cron")
async def test_clients_receive_the_begin_and_the_end_of_a_run(tmp_path: Path) -> None:
    async with jobs(tmp_path) as rig:
        address = rig.life.address
        async with connected(address.url, auth={"token": address.token}) as wire:
            job = await rig.add()
            added = (await wire.event("cron"))["payload"]
            assert added == {"jobId": job, "action": "added", "nextRunAtMs": START + HOUR}
            rig.pass_time(HOUR)
            started = (await wire.event("cron"))["payload"]
            assert (started["action"], started["runAtMs"]) == ("started", START + HOUR)
            ended = (await wire.event("cron"))["payload"]
            assert (ended["action"], ended["status"]) == ("finished", "ok")
            assert ended["nextRunAtMs"] == START + 2 * HOUR


def calling(arguments: dict[str, Any]) -> ScriptedModels:
    """Returns models that call the tool once, and then say what it answered."""

    def answer(request: ModelRequest) -> list[Step]:
        last = request.history.messages[-1]
        if isinstance(last, ToolResultMessage):
            return [f"answered: {last.text}"]
        return [ToolCall("call_1", "cron", arguments)]

    return ScriptedModels(ScriptedModel(answer))


JOB = {
    "action": "add",
    "job": {"name": "tea", "schedule": {"kind": "every", "everyMs": HOUR}, "payload": TURN},
}


async def test_the_agent_of_the_owner_adds_a_job_where_the_tool_is_chosen(tmp_path: Path) -> None:
    config = {"tools": {"alsoAllow": ["cron"]}}
    async with jobs(tmp_path, calling(JOB), config=config) as rig:
        await rig.write("remind me")
        (job,) = (await rig.ask("cron.list"))["jobs"]
        assert (job["name"], job["agentId"]) == ("tea", "main")


@pytest.mark.parametrize(
    ("config", "peer"),
    [
        pytest.param({}, "ann", id="unchosen"),
        pytest.param({"tools": {"alsoAllow": ["cron"]}}, "bob", id="stranger"),
    ],
)
async def test_nobody_else_schedules_jobs_by_the_tool(
    tmp_path: Path, config: dict[str, Any], peer: str
) -> None:
    async with jobs(tmp_path, calling(JOB), config=config) as rig:
        await rig.write("remind me", peer)
        assert (await rig.ask("cron.list"))["jobs"] == []


async def test_conversations_of_earlier_runs_are_removed_after_their_time(tmp_path: Path) -> None:
    async with jobs(tmp_path, config={"cron": {"sessionRetention": "90m"}}) as rig:
        job = await rig.add()
        ran: list[str] = []
        for number in range(1, 5):
            rig.pass_time(HOUR)
            ran = [entry["sessionId"] for entry in await rig.runs(number)]
        store, key = rig.life.gateway.context.store, f"agent:main:cron:{job}"
        later = rig.clock.now_ms() + 1
        kept = await store.read(lambda reader: archive.reset_before(reader, key, later, 10))
        assert kept == ran[1:3]
