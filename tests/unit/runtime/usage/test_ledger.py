"""Every call is booked, and budgets warn before they stop."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.root import Config
from skerry.config.usage import Budget, Budgets, UsageConfig
from skerry.features.doctor.gateway_checks import running
from skerry.model.errors import ModelRateLimitError
from skerry.model.ids import AgentId, RunId
from skerry.model.message import AssistantMessage, ToolCall, is_note
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest, RunResult
from skerry.ports.checks import Level
from skerry.ports.model import ModelCost
from skerry.ports.model_candidates import CallTarget
from skerry.store import Store
from skerry.store.call_log import CallLog
from skerry.store.usage import daily
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from tests.support.core import MAIN, Core, open_core, request

NOON = 1_795_348_800_000  # 2026-11-22 12:00 UTC
DOLLAR_A_PIECE = ModelCost(output=1_000_000)


def usage(**changes: Any) -> UsageConfig:
    return UsageConfig(budgets=Budgets(**changes))


async def rows(store: Store, *columns: str) -> list[tuple[Any, ...]]:
    named = ", ".join(columns)
    return await store.read(
        lambda reader: reader.all(f"SELECT {named} FROM model_call ORDER BY serial")  # noqa: S608 - columns of the test
    )


def says(*texts: str) -> ScriptedModel:
    """Returns a model that always sends the same text, at a dollar for each chunk."""
    return ScriptedModel(lambda _: list(texts))


def priced(core: Core) -> None:
    core.models.info = replace(core.models.info, cost=DOLLAR_A_PIECE)


async def quiet(core: Core, text: str, purpose: Purpose) -> RunResult:
    request = RunRequest(RunId(text), MAIN, text, origin=Origin.OWNER, purpose=purpose)
    await core.dispatch.submit(request)
    with anyio.fail_after(60):
        result = await core.dispatch.wait(request.run_id, None)
    assert result is not None
    return result


async def test_each_call_is_a_row_written_with_its_response(tmp_path: Path) -> None:
    script: list[list[Step]] = [[ToolCall("1", "read", {"path": "x"})], ["a", "b"]]
    commits: list[str] = []
    async with open_core(tmp_path, ScriptedModel(script), reach=commits.append) as core:
        await core.ask("hello", "r1")
        with_ledger = commits.count("store.before-commit")
        calls = await rows(core.store, "run_id", "channel", "purpose", "outcome", "output")
        assert calls == [
            ("r1", "webchat", "message", "ok", 0),
            ("r1", "webchat", "message", "ok", 2),
        ]
        # accepted, two of the call of a tool, the end: as many as without a ledger
        assert with_ledger == 4


async def test_a_call_that_is_given_up_or_fails_is_a_row_too(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[ModelRateLimitError("429")], ["so", gate]])
    async with open_core(tmp_path, model) as core:
        await core.ask("one")
        await core.dispatch.submit(request("two"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            core.dispatch.abort(MAIN, None, "test")
            await core.dispatch.wait(RunId("two"), None)
        calls = await rows(core.store, "run_id", "outcome", "counted", "input_cost")
        # the cost of the cancelled call is unknown
        assert calls == [("one", "error", 1, None), ("two", "aborted", 0, None)]


async def test_the_owner_is_told_once_a_day_that_a_budget_is_nearly_used_up(
    tmp_path: Path,
) -> None:
    clock = FakeClock(NOON)
    budgets = usage(agents={"main": Budget(cost=10)})
    async with open_core(tmp_path, says(*"four"), clock=clock, usage=budgets) as core:
        priced(core)
        for number in (1, 2, 3):
            assert (await core.ask(f"m{number}")).error is None
        (notice,) = [message for message in await core.transcript() if is_note(message) == "notice"]
        assert isinstance(notice, AssistantMessage)
        assert "usage.budgets.agents.main: $8.00 of $10.00 (80%)" in notice.text
    async with open_core(tmp_path, says(*"four"), clock=clock, usage=budgets) as core:
        result = await core.ask("refused")
        assert result.error is not None
        notes = [message for message in await core.transcript() if is_note(message) == "notice"]
        assert len(notes) == 1


async def test_a_budget_that_is_used_up_stops_runs_until_the_next_day_and_keeps_the_message(
    tmp_path: Path,
) -> None:
    clock = FakeClock(NOON)
    model = says(*"four")
    async with open_core(tmp_path, model, clock=clock, usage=usage(day=Budget(cost=4))) as core:
        priced(core)
        await core.ask("first")
        result = await core.ask("second")
        assert result.error is not None
        assert result.error.code == "usage.budget"
        assert "00:00 on 2026-11-23" in result.error.message
        assert "skerry config set usage.budgets.day.cost" in result.error.message
        assert len(model.requests) == 1
        assert any(getattr(message, "text", "") == "second" for message in await core.transcript())
    async with open_core(tmp_path, model, clock=clock, usage=usage(day=Budget(cost=4))) as core:
        assert (await core.ask("after a restart")).error is not None
        clock.advance(12 * 3_600_000)
        assert (await core.ask("third")).error is None
    assert len(model.requests) == 2


async def test_an_agent_s_budget_stops_no_other_agent(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    budgets = usage(agents={"main": Budget(tokens=1)})
    async with open_core(tmp_path, says("x"), clock=clock, usage=budgets) as core:
        await core.ask("first")
        assert (await core.ask("second")).error is not None
        runtime = core.dispatch.runtime
        runtime.ledger.allow(runtime.failover(target("other")).target)


async def test_what_nobody_waits_for_stops_at_the_warning(tmp_path: Path) -> None:
    budgets = usage(day=Budget(cost=10, warn_at=0.4))
    async with open_core(tmp_path, says(*"four"), usage=budgets) as core:
        priced(core)
        assert (await quiet(core, "before", Purpose.HEARTBEAT)).error is None
        for purpose in (Purpose.HEARTBEAT, Purpose.BOOT, Purpose.FLUSH):
            result = await quiet(core, f"a {purpose}", purpose)
            assert result.error is not None
            assert "can wait until tomorrow" in result.error.message
        assert (await core.ask("a person")).error is None
        calls = await rows(core.store, "purpose")
        assert calls == [("heartbeat",), ("message",)]


async def test_without_a_known_price_a_budget_says_what_it_does_not_see(tmp_path: Path) -> None:
    budgets = usage(day=Budget(cost=10))
    async with open_core(tmp_path, says("x"), usage=budgets) as core:
        core.models.info = replace(core.models.info, cost=ModelCost(is_priced=False))
        assert (await core.ask("first")).error is None
        (notice,) = [message for message in await core.transcript() if is_note(message) == "notice"]
        assert isinstance(notice, AssistantMessage)
        assert "1 call without a known price or count not included" in notice.text
        assert "models.providers" in notice.text


async def test_what_a_budget_does_not_see_takes_no_warning_away(tmp_path: Path) -> None:
    budgets = usage(agents={"main": Budget(cost=10)})
    async with open_core(tmp_path, says(*"four"), clock=FakeClock(NOON), usage=budgets) as core:
        core.models.info = replace(core.models.info, cost=ModelCost(is_priced=False))
        await core.ask("not priced")
        priced(core)
        for number in (1, 2, 3):
            await core.ask(f"m{number}")
        notices = [
            message.text for message in await core.transcript() if is_note(message) == "notice"
        ]
    assert [text.split(": ")[1].split(" (")[0] for text in notices] == [
        "$0.00 of $10.00",
        "$8.00 of $10.00",
    ]


async def test_a_ledger_that_cannot_be_read_lets_nothing_through_where_there_are_budgets(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path, says("x")) as core:
        await core.ask("first")
        await core.store.write(lambda unit: unit.execute("DROP TABLE usage_warned"))
    budgets = usage(day=Budget(cost=10))
    async with open_core(tmp_path, says("x"), usage=budgets) as core:
        result = await core.ask("second")
        assert result.error is not None
        assert "The usage of today is unknown" in result.error.message
    async with open_core(tmp_path, says("x")) as core:
        assert (await core.ask("third")).error is None


async def test_days_are_those_of_the_person_s_time_zone(tmp_path: Path) -> None:

    agents = AgentsConfig(defaults=AgentDefaults(user_timezone="Pacific/Auckland"))
    async with open_core(tmp_path, says("x"), clock=FakeClock(NOON), agents=agents) as core:
        await core.ask("first")
        assert await rows(core.store, "day") == [("2026-11-23",)]


def target(agent: str) -> CallTarget:

    return CallTarget(agent=AgentId(agent))


@pytest.mark.parametrize("name", ["nobody", "Main"])
def test_a_budget_for_an_agent_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:

    with pytest.raises(ValueError, match="no such agent"):
        Config(
            state_dir=tmp_path,
            path=tmp_path / "skerry.json",
            usage=usage(agents={name: Budget(cost=1)}),
        )


async def test_status_and_doctor_show_the_use_of_budgets(tmp_path: Path) -> None:
    budgets = usage(day=Budget(cost=10), agents={"main": Budget(cost=4, tokens=1000)})
    async with open_core(tmp_path, says(*"four"), usage=budgets) as core:
        priced(core)
        assert [report.level for report in running({"budgets": core.ledger.report()})] == []
        await core.ask("first")
        day, main = core.ledger.report()
        assert (day["budget"], day["state"], day["cost"]) == ("usage.budgets.day", "ok", 4.0)
        assert (main["state"], main["share"], main["tokenLimit"]) == ("stopped", 1.0, 1000)
        (check,) = running({"budgets": core.ledger.report()})
        assert (check.name, check.level) == ("usage", Level.FAILURE)
        assert "usage.budgets.agents.main: $4.00 of $4.00" in check.message


async def test_a_call_that_died_with_the_process_is_booked_as_lost_for_who_was_asked(
    tmp_path: Path,
) -> None:
    agents = AgentsConfig(defaults=AgentDefaults(model={"primary": "acme/large@work"}))
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]]), agents=agents) as core:
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        noted = CallLog(tmp_path).read()
    (call,) = noted.values()
    other_home = tmp_path / "other"
    other_home.mkdir()
    log = CallLog(other_home)
    log.begin(call)
    async with open_core(other_home, ScriptedModel([["x"]])) as core:
        rows = "SELECT run_id, provider, model, outcome, counted FROM model_call"
        booked = await core.store.read(lambda reader: reader.all(rows))
        assert booked == [("one", call.provider, call.model, "lost", 0)]
        sums = await core.store.read(lambda reader: daily(reader, "0", "9"))
        assert [(sums_.calls, sums_.failed, sums_.uncounted) for sums_ in sums.values()] == [
            (1, 1, 1)
        ]
        assert not log.read()
