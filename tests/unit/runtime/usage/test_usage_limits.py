"""Limits of runs and days: a run ends before the call that exceeds one, and names the setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from skerry.config.agents import AgentsConfig
from skerry.model.ids import RunId
from skerry.model.message import AssistantMessage, ToolCall, ToolResultMessage, open_calls
from skerry.model.queue import QueueMode
from skerry.model.run import StopReason
from skerry.model.tool import ToolResult, ToolSpec
from skerry.ports.model import ModelCost, ModelRequest
from skerry.ports.tool import ToolContext
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from tests.support.core import Core, open_core, request


class Count:
    """A tool that counts its calls."""

    spec = ToolSpec("count", "Counts.", {"type": "object"})

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Counts."""
        del arguments, context
        self.calls += 1
        return ToolResult("counted")


def agents(**limits: dict[str, float]) -> AgentsConfig:
    return AgentsConfig.model_validate({"defaults": {"limits": limits}})


def calls(number: int, request: ModelRequest) -> list[Step]:
    index = len(request.history.messages)
    return [ToolCall(f"c{index}-{n}", "count", {}) for n in range(number)]


def restless(request: ModelRequest) -> Sequence[Step]:
    """Calls a tool each time, for ever."""
    return ["on", *calls(1, request)]


async def paired(core: Core) -> list[AssistantMessage | ToolResultMessage]:
    messages = await core.transcript()
    assert open_calls(messages) == []
    return [
        message for message in messages if isinstance(message, AssistantMessage | ToolResultMessage)
    ]


async def test_a_run_that_never_ends_ends_at_its_limit_of_model_calls(tmp_path: Path) -> None:
    model, tool = ScriptedModel(restless), Count()
    limits = agents(run={"modelCalls": 3})
    async with open_core(tmp_path, model, tools=(tool,), agents=limits) as core:
        ended = await core.ask("go")
        assert (ended.stop_reason, ended.error) == (StopReason.DONE, None)
        assert ended.payloads[:3] == ("on", "on", "on")
        assert "this run reached the limit of 3 model calls" in ended.payloads[3]
        assert "skerry config set agents.defaults.limits.run.modelCalls 6" in ended.payloads[3]
        assert (len(model.requests), tool.calls) == (3, 3)
        assert (await paired(core))[-1].text == ended.payloads[3]
        await core.ask("again")  # each run counts for itself
        assert len(model.requests) == 6


async def test_of_one_answer_with_20000_tool_calls_as_many_run_as_may(tmp_path: Path) -> None:
    model, tool = ScriptedModel(lambda request: calls(20_000, request)), Count()
    limits = agents(run={"toolCalls": 5})
    async with open_core(tmp_path, model, tools=(tool,), agents=limits) as core:
        ended = await core.ask("go")
        assert (ended.stop_reason, tool.calls, len(model.requests)) == (StopReason.DONE, 5, 1)
        assert "the limit of 5 tool calls" in ended.payloads[-1]
        assert len(await paired(core)) == 7  # the answer, its five results, and why it stopped


async def test_tool_calls_beyond_the_limit_leave_what_was_said(tmp_path: Path) -> None:
    script: list[Sequence[Step]] = [
        [ToolCall("c1", "count", {})],
        ["found it", ToolCall("c2", "count", {})],
    ]
    model, limits = ScriptedModel(script), agents(run={"toolCalls": 1})
    async with open_core(tmp_path, model, tools=(Count(),), agents=limits) as core:
        (text,) = (await core.ask("go")).payloads
        assert text.startswith("found it\n\n⏸ I stopped here")
        await paired(core)


async def test_tokens_and_costs_end_a_run_too(tmp_path: Path) -> None:
    limits: dict[str, dict[str, float]] = {"tokens": {"tokens": 3}, "US dollars": {"cost": 0.5}}
    for name, limit in limits.items():
        model = ScriptedModel(restless)
        async with open_core(
            tmp_path / name, model, tools=(Count(),), agents=agents(run=limit)
        ) as core:
            core.models.info = replace(core.models.info, cost=ModelCost(input=250_000.0))
            ended = await core.ask("go")
            assert name in ended.payloads[-1]
            assert len(model.requests) < 5


async def test_a_day_has_limits_that_hold_over_runs_and_restarts(tmp_path: Path) -> None:
    limits = agents(day={"modelCalls": 3, "toolCalls": 2})
    answers, today = [""], {"state": "", "message": ""}
    for names in (("one", "two"), ("three", "four")):
        model, tool = ScriptedModel(lambda _: ["ok"]), Count()
        async with open_core(tmp_path, model, tools=(tool,), agents=limits) as core:
            answers = [(await core.ask(name)).payloads[-1] for name in names]
            (today,) = core.ledger.meter.report()
    assert answers[0] == "ok"
    assert "the agent main today reached the limit of 3 model calls" in answers[1]
    assert today["state"] == "stopped"
    assert today["message"].startswith("3 of 3 model calls, 0 of 2 tool calls")


async def test_tool_calls_of_a_day_are_counted_over_restarts(tmp_path: Path) -> None:
    limits, total = agents(day={"toolCalls": 3}), 0
    for name in ("one", "two"):
        tool = Count()
        model = ScriptedModel(restless)
        async with open_core(tmp_path, model, tools=(tool,), agents=limits) as core:
            await core.ask(name)
        total += tool.calls
    assert total == 3


async def test_an_agent_has_limits_of_its_own_and_0_is_none(tmp_path: Path) -> None:
    agent_limits = {"run": {"modelCalls": 2}, "day": {"modelCalls": 0}}
    config = AgentsConfig.model_validate(
        {
            "defaults": {"limits": {"day": {"modelCalls": 1}}},
            "list": [{"id": "main", "limits": agent_limits}],
        }
    )
    model = ScriptedModel(restless)
    async with open_core(tmp_path, model, tools=(Count(),), agents=config) as core:
        text = (await core.ask("go")).payloads[-1]
        assert "agents.list[0].limits.run.modelCalls 4" in text
        assert len(model.requests) == 2


async def test_a_message_that_steered_a_run_at_its_limit_has_a_run_of_its_own(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    script: list[Sequence[Step]] = [[gate, ToolCall("c1", "count", {})], ["yours"]]
    model, limits = ScriptedModel(script), agents(run={"modelCalls": 1})
    async with open_core(tmp_path, model, tools=(Count(),), agents=limits) as core:
        await core.dispatch.submit(request("go"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            await core.dispatch.submit(request("more", queue_mode=QueueMode.STEER))
            gate.open()
            ended = await core.dispatch.wait(RunId("more"), None)
        assert ended is not None
        assert (ended.joined, ended.payloads) == (None, ("yours",))


def test_there_are_limits_without_a_word_in_the_configuration() -> None:
    limits = AgentsConfig().defaults.limits
    assert (limits.run.model_calls, limits.run.tool_calls) == (200, 500)
    assert all((limits.run.tokens, limits.run.cost, limits.day.tokens, limits.day.cost))
