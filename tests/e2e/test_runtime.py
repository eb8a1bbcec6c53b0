"""The stages of a run over a whole gateway, and one runtime for all agents."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.client.frames import GatewayEvent
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from tests.support.whole import CALL, whole_gateway

AGENTS = {"agents": {"list": [{"id": "home", "default": True}, {"id": "work", "name": "Ann"}]}}


def streamed(events: list[GatewayEvent], run_id: str) -> list[tuple[str, Any]]:
    """Returns the stream and the phase, or the text, of each agent event of the run."""
    found = []
    for event in events:
        payload: Any = event.payload
        if event.event == "agent" and payload["runId"] == run_id:
            data = payload["data"]
            found.append((payload["stream"], data.get("phase") or data.get("text")))
    return found


async def until_ended(
    client: GatewayClient, asked: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], list[GatewayEvent]]:
    """Starts the runs, each with its parameters; returns the answers and the events meanwhile."""
    events: list[GatewayEvent] = []
    answers: dict[str, Any] = {}
    with client.subscribe() as stream, anyio.fail_after(60):
        for run_id, params in asked.items():
            answers[run_id] = await client.request("agent", {"idempotencyKey": run_id, **params})
        left = set(asked)
        async for event in stream:
            events.append(event)
            payload: Any = event.payload
            if event.event == "agent" and payload["data"].get("phase") in {"end", "error"}:
                left -= {payload["runId"]} if payload["stream"] == "lifecycle" else set()
            if not left:
                break
    return answers, events


@pytest.mark.requirement("agent-execution-order")
async def test_a_message_passes_the_stages_of_a_run_in_order(tmp_path: Path) -> None:
    hooks, stages = Hooks(), list[tuple[str, int]]()

    async def load(payload: Any) -> None:
        stages.append(("context and prompt", len(payload.messages)))

    async def ask(payload: Any) -> None:
        assert payload.system_prompt.startswith("You are")
        stages.append(("model", len(payload.history_messages)))

    async def tool(_: Any) -> None:
        stages.append(("tool", 0))

    hooks.before_prompt_build.add(Handler("trace", load))
    hooks.llm_input.add(Handler("trace", ask))
    hooks.before_tool_call.add(Handler("trace", tool))
    async with (
        whole_gateway(tmp_path / "home", hooks) as (_, address),
        GatewayClient(address) as client,
    ):
        await until_ended(client, {"one": {"message": "hello", "sessionKey": "main"}})
        stages.clear()
        answers, events = await until_ended(
            client, {"two": {"message": CALL, "sessionKey": "main"}}
        )
    assert answers["two"]["status"] == "accepted"
    # The history is loaded, the prompt is built once, and the model is asked again after its tool.
    assert stages == [("context and prompt", 3), ("model", 3), ("tool", 0), ("model", 5)]
    told = streamed(events, "two")
    assert told[0] == ("lifecycle", "start")
    assert [one for one in told if one[0] == "tool"] == [("tool", "start"), ("tool", "result")]
    answer = next(one for one in reversed(told) if one[0] == "assistant")
    assert told.index(("tool", "result")) < told.index(answer)
    assert told[-1] == ("lifecycle", "end")


@pytest.mark.requirement("agent-single-embedded-runtime")
async def test_one_runtime_serves_all_agents_and_streams_their_tools_and_text(
    tmp_path: Path,
) -> None:
    hooks, served = Hooks(), list[tuple[str, str]]()

    async def note(payload: Any) -> None:
        served.append((payload.context.agent_id, payload.context.workspace.name))

    hooks.before_agent_start.add(Handler("trace", note))
    params = {
        "h": {"message": CALL, "sessionKey": "agent:home:main"},
        "w": {"message": CALL, "agentId": "work"},
    }
    async with (
        whole_gateway(tmp_path / "home", hooks, config=AGENTS) as (_, address),
        GatewayClient(address) as client,
    ):
        _, events = await until_ended(client, params)
    assert sorted(served) == [("home", "workspace"), ("work", "workspace-work")]
    for run_id, agent in (("h", "home"), ("w", "work")):
        told = streamed(events, run_id)
        assert [one for one in told if one[0] == "tool"] == [("tool", "start"), ("tool", "result")]
        texts = [text for stream, text in told if stream == "assistant"]
        assert f"a note of {agent}" in texts[-1]
