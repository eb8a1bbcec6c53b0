"""The hooks of a run: their payloads, their changes, and that none is called twice."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.hooks.events import AgentEnd, MessageReceived, RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    BLOCKED,
    AfterToolCall,
    AfterToolCallChange,
    BeforeToolCall,
    BeforeToolCallChange,
    LlmInput,
    LlmInputChange,
    LlmOutput,
    LlmOutputChange,
    MessageSending,
    MessageSendingChange,
    ModelResolve,
    ModelResolveChange,
    PromptChange,
    PromptDraft,
    ToolResultPersistChange,
)
from skerry.hooks.runner import Handler
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    UserMessage,
    user,
)
from skerry.model.run import StopReason
from skerry.runtime.run_hooks import RunHooks, TranscriptHooks, overridden
from skerry.testing.model import MODEL, ScriptedModel, echo
from tests.support.core import open_core
from tests.support.hooks import READ, from_alice, on, parts, results, returns, text
from tests.support.openings import receive
from tests.support.untrusted import within


@pytest.mark.requirement("hooks-01-message-received")
async def test_a_message_is_told_once_however_often_it_is_sent(tmp_path: Path) -> None:
    payloads: list[MessageReceived] = []

    async def hear(payload: MessageReceived) -> None:
        payloads.append(payload)

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.message_received, hear)
        for _ in range(3):
            await core.ask("hi", "key")
    (received,) = payloads
    assert (received.content, received.context.run_id, received.context.channel) == (
        "hi",
        "key",
        "webchat",
    )
    assert received.context.session_key == "agent:main:main"
    assert received.context.session_id


@pytest.mark.requirement("channels-inbound-normalised")
async def test_a_message_is_normalised_before_hooks_and_routing_see_it(tmp_path: Path) -> None:
    payloads: list[MessageReceived] = []

    async def hear(payload: MessageReceived) -> None:
        payloads.append(payload)

    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        on(core.hooks.message_received, hear)
        await receive(core, "one\r\ntwo \ud83d", "m1")
    assert payloads[0].content == "one\ntwo ?"
    assert "one\ntwo ?" in model.requests[0].last


@pytest.mark.requirement("hooks-02-before-model-resolve")
async def test_a_handler_chooses_the_model_and_the_first_that_names_one_counts(
    tmp_path: Path,
) -> None:
    names: list[str] = []

    async def second(payload: ModelResolve) -> ModelResolveChange:
        names.append(payload.prompt)
        return ModelResolveChange(provider_override="other", model_override="small")

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.before_model_resolve, returns(ModelResolveChange(model_override="big")), 1)
        on(core.hooks.before_model_resolve, second)
        await core.ask("hi")
        assert (names, core.models.chosen[-1]) == (["hi"], "other/big")


@pytest.mark.parametrize(
    ("reference", "provider", "model", "expected"),
    [
        ("a/b", None, None, "a/b"),
        ("a/b", "c", None, "c/b"),
        ("a/b/c", None, "d", "a/d"),
        ("a/b", "c", "d", "c/d"),
        (None, "c", None, None),
        (None, None, "c/d", "c/d"),
        (None, None, None, None),
    ],
)
def test_the_parts_of_a_reference_are_put_in_place(
    reference: str | None, provider: str | None, model: str | None, expected: str | None
) -> None:
    assert overridden(reference, provider, model) == expected


@pytest.mark.requirement("hooks-03-before-prompt-build")
async def test_contexts_are_for_the_model_only_and_in_order_of_priority(
    tmp_path: Path,
) -> None:
    drafts: list[PromptDraft] = []

    async def first(payload: PromptDraft) -> PromptChange:
        drafts.append(payload)
        return PromptChange(prepend_context="one", append_system_context="after 1")

    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await core.ask("before")
        on(
            core.hooks.before_prompt_build,
            returns(PromptChange(prepend_context="two", append_system_context="after 2")),
        )
        on(core.hooks.before_prompt_build, first, 1)
        await core.ask("hi")
        core.hooks.before_prompt_build.remove("test")
        await core.ask("again")
        messages = await core.transcript()
    second_call = model.requests[1]
    assert second_call.last == "one\n\ntwo\n\nhi"
    assert second_call.request.system.endswith("\n\nafter 1\n\nafter 2")
    assert (drafts[0].prompt, len(drafts[0].messages)) == ("hi", 3)
    assert [message.text for message in messages if isinstance(message, UserMessage)] == [
        "before",
        "hi",
        "again",
    ]
    texts = [
        message.text for message in model.requests[2].messages if isinstance(message, UserMessage)
    ]
    assert texts == ["before", "hi", "again"]


@pytest.mark.requirement("hooks-04-before-agent-start")
async def test_before_agent_start_sees_the_whole_system_prompt_once_a_run(tmp_path: Path) -> None:
    drafts: list[PromptDraft] = []

    async def start(payload: PromptDraft) -> PromptChange:
        drafts.append(payload)
        return PromptChange(prepend_system_context="top", prepend_context="more")

    model = ScriptedModel([[READ], ["done"]])
    async with open_core(tmp_path, model) as core:
        on(core.hooks.before_prompt_build, returns(PromptChange(system_prompt="own")))
        on(core.hooks.before_agent_start, start)
        await core.ask("hi")
    assert [draft.system_prompt for draft in drafts] == ["own"]
    assert [call.request.system for call in model.requests] == ["top\n\nown", "top\n\nown"]
    assert model.requests[0].last == "more\n\nhi"


@pytest.mark.requirement("hooks-05-llm-input")
async def test_llm_input_passes_before_each_call_and_may_change_its_system_prompt(
    tmp_path: Path,
) -> None:
    payloads: list[LlmInput] = []

    async def number(payload: LlmInput) -> LlmInputChange:
        payloads.append(payload)
        return LlmInputChange(system_prompt=f"call {len(payloads)}")

    model = ScriptedModel([[READ], ["done"]])
    async with open_core(tmp_path, model) as core:
        on(core.hooks.llm_input, number)
        await core.ask("hi")
    assert [call.request.system for call in model.requests] == ["call 1", "call 2"]
    assert [len(call.history_messages) for call in payloads] == [1, 3]
    assert [(call.provider, call.model, call.prompt) for call in payloads] == [
        ("test", "script", "hi")
    ] * 2


@pytest.mark.requirement("hooks-09-llm-output")
async def test_llm_output_passes_after_each_response_and_before_its_tools(tmp_path: Path) -> None:
    trace: list[str] = []

    async def output(payload: LlmOutput) -> LlmOutputChange | None:
        trace.append(f"output {payload.assistant_texts}")
        message = payload.last_assistant
        if message.tool_calls:
            return None
        content = (TextBlock(message.text.upper()),)
        return LlmOutputChange(message=msgspec.structs.replace(message, content=content))

    async def tool(_: BeforeToolCall) -> None:
        trace.append("tool")

    async with open_core(tmp_path, ScriptedModel([["look", READ], ["done"]])) as core:
        on(core.hooks.llm_output, output)
        on(core.hooks.before_tool_call, tool)
        result = await core.ask("hi")
    assert trace == ["output ('look',)", "tool", "output ('done',)"]
    assert result.payloads == ("look", "DONE")


@pytest.mark.requirement("hooks-06-before-tool-call")
async def test_a_handler_changes_the_parameters_of_a_call(tmp_path: Path) -> None:
    change = BeforeToolCallChange(params={"path": "other.txt"})
    async with open_core(tmp_path, ScriptedModel([[READ], ["done"]])) as core:
        (core.workspace / "other.txt").write_text("the other")
        on(core.hooks.before_tool_call, returns(change))
        await core.ask("hi")
        messages = await core.transcript()
    assert "the other" in results(messages)[0]
    assert isinstance(messages[1], AssistantMessage)
    assert messages[1].tool_calls == (READ,)  # what the model asked for


@pytest.mark.requirement("hooks-06-before-tool-call")
@pytest.mark.parametrize(("reason", "read"), [("Not today.", "Not today."), ("", BLOCKED)])
async def test_a_blocked_call_does_not_run_and_the_model_reads_why(
    tmp_path: Path, reason: str, read: str
) -> None:
    ended: list[AfterToolCall] = []

    async def after(payload: AfterToolCall) -> None:
        ended.append(payload)

    model = ScriptedModel([[READ], ["done"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("secret")
        on(
            core.hooks.before_tool_call,
            returns(BeforeToolCallChange(block=True, block_reason=reason)),
        )
        on(core.hooks.after_tool_call, after)
        await core.ask("hi")
    assert model.requests[1].last == read
    assert [payload.error for payload in ended] == [read]


@pytest.mark.requirement("hooks-08-after-tool-call")
async def test_a_replaced_result_is_what_the_model_reads_and_the_transcript_keeps(
    tmp_path: Path,
) -> None:
    ended: list[AfterToolCall] = []

    async def after(payload: AfterToolCall) -> AfterToolCallChange:
        ended.append(payload)
        return AfterToolCallChange(result=text("redacted"))

    model = ScriptedModel([[READ], ["done"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("secret")
        on(
            core.hooks.tool_result_persist,
            lambda payload: ToolResultPersistChange(message=payload.message),
        )
        on(core.hooks.after_tool_call, after)
        await core.ask("hi")
        messages = await core.transcript()
    assert (within(model.requests[1].last), results(messages)) == ("redacted", ["redacted"])
    assert (ended[0].params, ended[0].error) == (READ.arguments, None)
    assert "secret" in ended[0].result.text


async def test_a_result_may_not_answer_another_call(tmp_path: Path) -> None:
    model = ScriptedModel([[READ], ["done"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("true")
        on(core.hooks.after_tool_call, returns(AfterToolCallChange(result=text("x", "c9"))))
        await core.ask("hi")
        assert core.hooks.report()[0].failures == 1
    assert "true" in model.requests[1].last


@pytest.mark.parametrize(("compactions", "calls"), [(0, 0), (1, 1)])
async def test_a_handler_for_compacted_conversations_is_called_for_those_alone(
    tmp_path: Path, compactions: int, calls: int
) -> None:
    drafts: list[PromptDraft] = []

    async def note(payload: PromptDraft) -> None:
        drafts.append(payload)

    handler: Handler[Any, Any] = Handler("test", note)
    handler.after_compaction = True
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        core.hooks.before_prompt_build.add(handler)
        context = RunContext(
            run_id=RunId("r"),
            agent_id=AgentId("main"),
            session_key="agent:main:main",
            session_id=SessionId("s"),
        )
        hooks = RunHooks(core.hooks, context, TranscriptHooks(core.hooks), SystemClock())
        assert await hooks.prompt(user("hi", 0), "built", MODEL, [], compactions) == ("built", "")
    assert len(drafts) == calls


@pytest.mark.requirement("hooks-10-agent-end")
async def test_agent_end_gets_the_final_messages_and_delays_nothing(tmp_path: Path) -> None:
    ends: list[AgentEnd] = []
    notified = anyio.Event()

    async def end(payload: AgentEnd) -> None:
        ends.append(payload)
        notified.set()
        await anyio.sleep_forever()

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        core.hooks.agent_end.timeout = 0.05
        await core.ask("one")
        on(core.hooks.before_prompt_build, returns(PromptChange(prepend_context="memories")))
        on(core.hooks.agent_end, end)
        result = await core.ask("two")
        assert result.stop_reason is StopReason.DONE
        with anyio.fail_after(60):
            await notified.wait()
        messages = await core.transcript()
    (received,) = ends
    assert (received.success, received.error) == (True, None)
    assert list(received.messages) == messages
    assert list(received.new_messages) == messages[2:]


@pytest.mark.requirement("hooks-11-message-sending")
async def test_what_message_sending_makes_is_what_the_outbox_has(tmp_path: Path) -> None:
    async def change(payload: MessageSending) -> MessageSendingChange:
        assert (payload.to, payload.account, payload.in_reply_to) == ("alice", "default", "hi")
        return MessageSendingChange(content=payload.content + "!")

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.message_sending, change)
        await core.dispatch.submit(from_alice("hi"))
        result = await core.dispatch.wait(from_alice("hi").run_id, 60)
        assert result is not None
        assert result.payloads == ("echo: hi",)
        assert await parts(core) == ["echo: hi!"]


async def fails(_: object) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize("handler", [returns(MessageSendingChange(cancel=True)), fails])
async def test_a_cancelled_block_and_one_whose_guard_is_broken_have_no_row(
    tmp_path: Path, handler: Any
) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.message_sending, handler)
        await core.dispatch.submit(from_alice("hi"))
        await core.dispatch.wait(from_alice("hi").run_id, 60)
        assert await parts(core) == []


async def test_nothing_is_asked_for_when_nobody_has_registered() -> None:
    assert all(point.handlers == () for point in Hooks().points.values())
