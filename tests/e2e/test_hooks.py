"""The thirteen hooks over a whole gateway: the order in which a message passes them."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.events import MessageSent
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import MessageSendingChange
from skerry.hooks.points import SyncTransform
from skerry.hooks.runner import Handler
from skerry.model.message import ToolCall
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ScriptedModel
from tests.support.whole import CALL, whole_gateway

THIRTEEN = (
    "message_received",
    "before_model_resolve",
    "before_prompt_build",
    "before_agent_start",
    "llm_input",
    "before_tool_call",
    "tool_result_persist",
    "after_tool_call",
    "llm_output",
    "agent_end",
    "message_sending",
    "before_message_write",
    "message_sent",
)


def record(hooks: Hooks, trace: list[str]) -> anyio.Event:
    """Notes every hook that is passed; returns an event that is set when a part was sent."""
    sent = anyio.Event()

    async def end(_: MessageSent) -> None:
        sent.set()

    for name in THIRTEEN:
        point = hooks.points[name]

        def plain(_: Any, name: str = name) -> None:
            trace.append(name)

        async def note(_: Any, name: str = name) -> None:
            trace.append(name)

        handler: Any = plain if isinstance(point, SyncTransform) else note
        point.add(Handler("trace", handler))
    hooks.message_sent.add(Handler("trace", end, -1))
    return sent


@pytest.mark.requirement("hooks-thirteen-order")
@pytest.mark.requirement("hooks-13-message-sent")
async def test_a_message_with_a_tool_call_passes_all_thirteen_in_order(tmp_path: Path) -> None:
    hooks, platform, trace = Hooks(), FakePlatform(tmp_path / "platform"), list[str]()
    sent = record(hooks, trace)
    config = {"tools": {"guests": {"allow": ["read"]}}}
    async with whole_gateway(tmp_path / "home", hooks, platform, config):
        platform.say(CALL, message_id="m1")
        with anyio.fail_after(60):
            await sent.wait()
    assert [one for one in trace if one != "before_message_write"] == [
        "message_received",
        "before_model_resolve",
        "before_prompt_build",
        "before_agent_start",
        "llm_input",
        "llm_output",
        "before_tool_call",
        "tool_result_persist",
        "after_tool_call",
        "llm_input",
        "llm_output",
        "agent_end",
        "message_sending",
        "message_sent",
    ]
    # One for each entry: the person's, the call, its result, the answer; the last is number 12.
    assert trace.count("before_message_write") == 4
    assert trace[-3:] == ["message_sending", "before_message_write", "message_sent"]
    assert set(trace) == set(THIRTEEN)


@pytest.mark.requirement("hooks-repeat-per-tool-call")
async def test_the_hooks_of_a_tool_call_run_once_for_each_call_of_a_turn(tmp_path: Path) -> None:
    hooks, platform, trace = Hooks(), FakePlatform(tmp_path / "platform"), list[str]()
    sent = record(hooks, trace)
    calls = [ToolCall(f"c{n}", "read", {"path": "note.txt"}) for n in range(3)]
    model = ScriptedModel([calls[:2], calls[2:], ["Done."]])
    config = {"tools": {"guests": {"allow": ["read"]}}}
    async with whole_gateway(tmp_path / "home", hooks, platform, config, model=model):
        platform.say("read it", message_id="m1")
        with anyio.fail_after(60):
            await sent.wait()
    call = ["before_tool_call", "tool_result_persist", "after_tool_call"]
    response = ["llm_input", "llm_output"]
    steps = {*call, *response}
    assert [hook for hook in trace if hook in steps] == [
        *response,
        *call,
        *call,
        *response,
        *call,
        *response,
    ]


async def test_a_clients_message_passes_those_that_are_not_about_delivery(tmp_path: Path) -> None:
    hooks, platform, trace = Hooks(), FakePlatform(tmp_path / "platform"), list[str]()
    record(hooks, trace)
    async with (
        whole_gateway(tmp_path / "home", hooks, platform) as (_, address),
        GatewayClient(address) as client,
    ):
        await client.request(
            "agent", {"message": CALL, "sessionKey": "main", "idempotencyKey": "k"}
        )
        await client.request("agent.wait", {"runId": "k", "timeoutMs": 60_000}, timeout=90)
    assert set(THIRTEEN) - set(trace) == {"message_sending", "message_sent"}


async def test_the_platform_shows_what_message_sending_made_of_the_reply(tmp_path: Path) -> None:
    hooks, platform = Hooks(), FakePlatform(tmp_path / "platform")
    sent: list[MessageSent] = []
    told = anyio.Event()

    async def sign(payload: Any) -> MessageSendingChange:
        return MessageSendingChange(content=f"{payload.content}\n(from Skerry)")

    async def note(payload: MessageSent) -> None:
        sent.append(payload)
        told.set()

    hooks.message_sending.add(Handler("sign", sign))
    hooks.message_sent.add(Handler("sign", note))
    async with whole_gateway(tmp_path / "home", hooks, platform):
        platform.say("hello", message_id="m1")
        with anyio.fail_after(60):
            await told.wait()
    (shown,) = platform.received()
    assert shown.text == "echo: hello\n(from Skerry)"
    assert (sent[0].content, sent[0].success, sent[0].to) == (shown.text, True, "alice")
    assert sent[0].message_ids == (shown.nonce,)


async def test_a_session_begins_once_and_a_stop_is_told(tmp_path: Path) -> None:
    hooks, platform, trace = Hooks(), FakePlatform(tmp_path / "platform"), list[str]()
    told = anyio.Event()

    async def note(payload: Any) -> None:
        trace.append(type(payload).__name__)
        if isinstance(payload, MessageSent) and payload.content.endswith("two"):
            told.set()

    for point in (hooks.session_start, hooks.message_sent, hooks.gateway_stop):
        point.add(Handler("note", note))
    async with whole_gateway(tmp_path / "home", hooks, platform) as (application, _):
        platform.say("one", message_id="m1")
        platform.say("two", message_id="m2")
        with anyio.fail_after(60):
            await told.wait()
        await application.drain()
    assert trace == ["SessionStart", "MessageSent", "MessageSent", "GatewayStop"]


@pytest.mark.requirement("agent-lifecycle-order")
async def test_an_agent_s_phases_come_in_order(tmp_path: Path) -> None:
    """Workspace, session, run, archive: each begins when the one before is over."""
    home, hooks, trace = tmp_path / "home", Hooks(), list[str]()
    running, gone = anyio.Event(), anyio.Event()

    def phase(name: str) -> Any:
        async def note(_: object) -> None:
            trace.append(name if (home / "workspace").is_dir() else "no workspace")
            if name == "running":
                running.set()
            if name == "cleanup":
                gone.set()

        return note

    hooks.session_start.add(Handler("test", phase("session")))
    hooks.before_prompt_build.add(Handler("test", phase("running")))
    hooks.agent_end.add(Handler("test", phase("ran")))
    hooks.session_end.add(Handler("test", phase("cleanup")))
    async with whole_gateway(home, hooks) as (_, address), GatewayClient(address) as client:
        chat = {"message": "hello", "sessionKey": "chat", "idempotencyKey": "k"}
        await client.request("agent", chat)
        with anyio.fail_after(60):
            await running.wait()
            await client.request("sessions.delete", {"key": "chat"})
            await gone.wait()
    assert trace == ["session", "running", "ran", "cleanup"]
