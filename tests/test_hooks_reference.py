"""The reference pages of the hooks are current, and every example in them runs."""

import logging
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.hooks import EXAMPLES, PAGES, pages
from skerry.hooks.events import (
    AfterCompaction,
    AgentEnd,
    BeforeCompaction,
    BeforeReset,
    CommandGiven,
    GatewayStart,
    GatewayStop,
    MessageReceived,
    MessageSent,
    RunContext,
    SessionEnd,
    SessionStart,
)
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    AfterToolCall,
    BeforeMessageWrite,
    BeforeToolCall,
    BootstrapDraft,
    LlmInput,
    LlmOutput,
    MessageSending,
    ModelResolve,
    PromptDraft,
    ToolResultPersist,
)
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    user,
)
from skerry.sdk.api import PluginApi, sealed

CONTEXT = RunContext(
    run_id=RunId("r"), agent_id=AgentId("main"), session_key="k", session_id=SessionId("s")
)
SAID = AssistantMessage((TextBlock("goodbye"),), "a", "p", "m", Usage(), "stop", 0)
NAMES = sorted(Hooks().points)


def result(text: str) -> ToolResultMessage:
    return ToolResultMessage("c", "read", (TextBlock(text),), is_error=False, timestamp=0)


def prompt(text: str, system: str | None = None) -> PromptDraft:
    return PromptDraft(
        context=CONTEXT, prompt=text, messages=(), provider="p", model="m", system_prompt=system
    )


def example(name: str) -> Hooks:
    """Returns hooks at which the example has registered."""
    spec = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    hooks = Hooks()
    api = PluginApi(name)
    module.register(api)
    for hook, handler in sealed(api).handlers:
        hooks.points[hook].add(handler)
    assert [point.name for point in hooks.points.values() if point.handlers] == [name]
    return hooks


@pytest.mark.parametrize("name", ["README.md", *(f"{name}.md" for name in NAMES)])
def test_a_page_says_what_the_code_says(name: str) -> None:
    text = (PAGES / name).read_text("utf-8")
    assert text == pages()[name], "run: python -m scripts.hooks"


def test_every_hook_has_a_page_and_an_example_and_nothing_else_has() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES
    assert sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README") == NAMES


async def test_the_example_of_before_model_resolve_runs() -> None:
    async with example("before_model_resolve") as hooks:
        short = await hooks.before_model_resolve.run(ModelResolve(context=CONTEXT, prompt="hi"))
        long = await hooks.before_model_resolve.run(ModelResolve(context=CONTEXT, prompt="x" * 99))
    assert (short.model_override, long.model_override) == ("small-model", None)


async def test_the_example_of_agent_bootstrap_runs() -> None:
    async with example("agent_bootstrap") as hooks:
        draft = await hooks.agent_bootstrap.run(BootstrapDraft(context=CONTEXT, files=()))
    assert [file.name for file in draft.files] == ["HOUSE.md"]


async def test_the_example_of_before_prompt_build_runs() -> None:
    async with example("before_prompt_build") as hooks:
        draft = await hooks.before_prompt_build.run(prompt("Is there tea and a car"))
        other = await hooks.before_prompt_build.run(prompt("hello"))
    assert draft.prepend_context == (
        "Remembered:\nThe person drinks green tea.\nThe person has no car."
    )
    assert draft.append_system_context
    assert other == prompt("hello")


async def test_the_example_of_before_agent_start_runs() -> None:
    async with example("before_agent_start") as hooks:
        draft = await hooks.before_agent_start.run(prompt("hi", "system"))
    assert draft.append_system_context == "Give lengths in metres."


async def test_the_example_of_llm_input_runs() -> None:
    call = LlmInput(
        context=CONTEXT,
        provider="p",
        model="m",
        system_prompt="system",
        prompt="hi",
        history_messages=(),
        images_count=1,
    )
    async with example("llm_input") as hooks:
        changed = await hooks.llm_input.run(call)
    assert changed.system_prompt.startswith("system\n\nText inside images")


async def test_the_example_of_llm_output_runs() -> None:
    said = (TextBlock("As an AI, I say yes."),)
    message = AssistantMessage(said, "api", "p", "m", Usage(), "stop", 0)
    output = LlmOutput(
        context=CONTEXT,
        provider="p",
        model="m",
        assistant_texts=(message.text,),
        last_assistant=message,
        usage=Usage(),
    )
    async with example("llm_output") as hooks:
        changed = await hooks.llm_output.run(output)
    assert changed.last_assistant.text == "I say yes."


async def test_the_example_of_before_tool_call_runs() -> None:
    call = BeforeToolCall(
        context=CONTEXT, tool_name="read", tool_call_id="c", params={"path": "a.txt"}
    )
    secret = BeforeToolCall(
        context=CONTEXT, tool_name="read", tool_call_id="c", params={"path": "home/.env"}
    )
    async with example("before_tool_call") as hooks:
        assert (await hooks.before_tool_call.run(call)).params == {"path": "a.txt", "lines": 200}
        blocked = await hooks.before_tool_call.run(secret)
    assert blocked.block_reason == "Files with secrets are not read."


async def test_the_example_of_tool_result_persist_runs() -> None:
    payload = ToolResultPersist(
        context=CONTEXT, tool_name="read", tool_call_id="c", message=result("x" * 3000)
    )
    async with example("tool_result_persist") as hooks:
        changed = await hooks.tool_result_persist.run(payload)
    assert changed.message.text.endswith("x\n… 1000 characters more")


async def test_the_example_of_after_tool_call_runs() -> None:
    payload = AfterToolCall(
        context=CONTEXT,
        tool_name="read",
        tool_call_id="c",
        params={},
        result=result("key=sk-abcdefghijklmnopqrstuvwxyz."),
        duration_ms=1,
    )
    async with example("after_tool_call") as hooks:
        changed = await hooks.after_tool_call.run(payload)
    assert changed.result.text == "key=[key]."


async def test_the_example_of_message_sending_runs() -> None:
    block = MessageSending(context=CONTEXT, account="default", to="alice", content="hello")
    internal = replace(block, content="INTERNAL: do not send")
    async with example("message_sending") as hooks:
        signed = await hooks.message_sending.run(block)
        cancelled = await hooks.message_sending.run(internal)
    assert signed.content == "hello\n\n(sent by a program)"
    assert (signed.closed, cancelled.closed) == (False, True)


async def test_the_example_of_before_message_write_runs() -> None:
    entry = BeforeMessageWrite(context=CONTEXT, message=user("my card is 4111 1111 1111 1111", 0))
    async with example("before_message_write") as hooks:
        changed = await hooks.before_message_write.run(entry)
    assert isinstance(changed.message, UserMessage)
    assert changed.message.text == "my card is [card]"


WATCHED = {
    "command": (
        CommandGiven(name="new", agent_id=AgentId("main"), session_key="k"),
        "/new in k",
    ),
    "gateway_start": (GatewayStart(port=7), "listening on port 7"),
    "gateway_stop": (GatewayStop(reason="over"), "stopping: over"),
    "session_start": (
        SessionStart(agent_id=AgentId("main"), session_key="k", session_id=SessionId("s")),
        "new conversation k with agent main",
    ),
    "before_reset": (
        BeforeReset(
            agent_id=AgentId("main"),
            session_key="k",
            session_id=SessionId("s"),
            messages=(user("hello", 0), SAID),
            reason="reset",
        ),
        "last answer in k: goodbye",
    ),
    "session_end": (
        SessionEnd(
            agent_id=AgentId("main"),
            session_key="k",
            session_id=SessionId("s"),
            message_count=2,
            duration_ms=5,
            reason="delete",
        ),
        "conversation k ended after 2 messages: delete",
    ),
    "message_received": (
        MessageReceived(context=CONTEXT, sender="", content="hello", timestamp=0),
        "webchat: a client of the gateway wrote 5 characters",
    ),
    "agent_end": (
        AgentEnd(
            context=CONTEXT,
            messages=(),
            new_messages=(),
            success=True,
            error=None,
            duration_ms=12,
        ),
        "answered in 12 ms, 0 messages",
    ),
    "before_compaction": (
        BeforeCompaction(
            agent_id=AgentId("main"),
            session_key="agent:main:main",
            session_id=SessionId("s"),
            trigger="threshold",
            message_count=40,
            token_count=9000,
        ),
        "agent:main:main has 9000 tokens and is summarised",
    ),
    "after_compaction": (
        AfterCompaction(
            agent_id=AgentId("main"),
            session_key="agent:main:main",
            session_id=SessionId("s"),
            trigger="manual",
            message_count=3,
            token_count=900,
            compacted_count=38,
            summary="All is well.",
            by_model=True,
        ),
        "agent:main:main: 38 messages became 12 characters",
    ),
    "message_sent": (
        MessageSent(run_id=RunId("r"), channel="c", account="a", to="alice", content="hello"),
        "c: 5 characters to alice",
    ),
}


@pytest.mark.parametrize("name", WATCHED)
async def test_the_example_of_an_observer_runs(name: str, caplog: pytest.LogCaptureFixture) -> None:
    payload, line = WATCHED[name]
    async with example(name) as hooks:
        point = {
            observe.name: observe
            for observe in (
                hooks.command,
                hooks.gateway_start,
                hooks.before_compaction,
                hooks.after_compaction,
                hooks.gateway_stop,
                hooks.session_start,
                hooks.before_reset,
                hooks.session_end,
                hooks.message_received,
                hooks.agent_end,
                hooks.message_sent,
            )
        }[name]
        with caplog.at_level(logging.INFO):
            await point.run(payload)  # type: ignore[arg-type]  # the payload of this point
    assert line in caplog.messages


def test_every_example_is_run_here() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [name for name in NAMES if f'"{name}"' not in source] == []
