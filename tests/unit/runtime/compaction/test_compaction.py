"""Compaction as a whole: its trigger, the following model request, and the kept entries."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.commands.table import CommandTable
from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.context_limits import Compaction, MemoryFlush
from skerry.features.sessions.content import context_commands
from skerry.infra.backoff import Backoff
from skerry.model.errors import ModelOverflowError, ModelRequestError
from skerry.model.event import CompactionEnded, CompactionStarted
from skerry.model.message import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from skerry.model.run import StopReason
from skerry.ports.model import History, ModelRequest
from skerry.sessions.summary import SYSTEM
from skerry.store import compactions, sessions
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, Step, echo
from tests.support.core import MAIN, Core, open_core, request

SMALL = replace(MODEL, context_window=2000, max_tokens=200)
NO_FLUSH = MemoryFlush(enabled=False)
AGENTS = AgentsConfig(defaults=AgentDefaults(compaction=Compaction(memory_flush=NO_FLUSH)))


def is_summary(request: ModelRequest) -> bool:
    return request.system == SYSTEM


def sent(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.history.messages[request.first :])


def tokens(request: ModelRequest) -> int:
    return (len(sent(request)) + len(request.system)) // 4


def talker(request: ModelRequest) -> Sequence[Step]:
    return ["We spoke of boats."] if is_summary(request) else echo(request)


async def state(core: Core) -> compactions.CompactionState:
    session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
    assert session is not None
    return await core.store.read(lambda reader: compactions.state(reader, session.session_id))


async def talk(core: Core, count: int, words: int = 40, begin: int = 0) -> None:
    core.models.info = SMALL
    for number in range(begin, begin + count):
        await core.ask(f"message {number} " + "blue " * words)


def calls(model: ScriptedModel, *, summaries: bool) -> list[ModelRequest]:
    """Returns the requests of the model, each with the conversation at that time."""
    return [
        replace(call.request, history=History(call.messages))
        for call in model.requests
        if is_summary(call.request) == summaries
    ]


@pytest.mark.requirement("agent-execution-order")
@pytest.mark.requirement("compaction-threshold")
@pytest.mark.requirement("compaction-persists-summary")
async def test_a_conversation_is_summarised_before_it_fills_the_window(tmp_path: Path) -> None:
    texts: list[str] = []

    def model(request: ModelRequest) -> Sequence[Step]:
        assert tokens(request) < 2000
        if not is_summary(request):
            texts.append(sent(request))
        return talker(request)

    async with open_core(tmp_path, ScriptedModel(model), agents=AGENTS) as core:
        await talk(core, 30)
        stored_state = await state(core)
        assert stored_state.count >= 1
        assert stored_state.last is not None
        assert stored_state.last.text.startswith("We spoke of boats.")
        assert stored_state.last.trigger == "threshold"
        assert 2000 * 2 // 3 < stored_state.last.tokens_before < 2000 * 5 // 6
        messages = await core.transcript()
    assert [
        message.text.split()[1] for message in messages if isinstance(message, UserMessage)
    ] == [str(number) for number in range(30)]  # every message is still there
    assert "message 0" not in texts[-1]
    assert "<summary>\nWe spoke of boats.\n" in texts[-1]
    assert "message 29" in texts[-1]


async def test_what_the_model_reads_is_the_same_after_a_restart(tmp_path: Path) -> None:
    model = ScriptedModel(talker)
    async with open_core(tmp_path, model, agents=AGENTS) as core:
        await talk(core, 12)
        await talk(core, 1, words=1, begin=12)
        before = sent(calls(model, summaries=False)[-1])
        count = (await state(core)).count
    restarted = ScriptedModel(talker)
    async with open_core(tmp_path, restarted, agents=AGENTS) as core:
        await talk(core, 1, words=1, begin=13)
        assert (await state(core)).count == count
    after = sent(calls(restarted, summaries=False)[-1])
    assert count >= 1
    assert after.startswith(before)


@pytest.mark.requirement("compaction-overflow-retry")
async def test_what_the_model_refuses_as_too_long_is_summarised_and_asked_again(
    tmp_path: Path,
) -> None:
    refused = 0

    def model(request: ModelRequest) -> Sequence[Step]:
        nonlocal refused
        if is_summary(request):
            return ["Short."]
        if tokens(request) > 420:  # its real window is smaller than the configured one
            refused += 1
            return [ModelOverflowError("too long")]
        return echo(request)

    async with open_core(tmp_path, ScriptedModel(model), agents=AGENTS) as core:
        await talk(core, 12)
        last = (await core.transcript())[-1]
        ends = core.ends()
        phases = [event.body for event in core.events if isinstance(event.body, CompactionEnded)]
    assert refused
    assert isinstance(last, AssistantMessage)
    assert last.text.startswith("echo: message 11")
    assert {result.stop_reason for result in ends} == {StopReason.DONE}
    assert CompactionEnded(done=True, will_retry=True) in phases


async def test_no_request_that_was_refused_as_too_long_is_sent_again_in_any_form(
    tmp_path: Path,
) -> None:
    requests: list[tuple[str, int, bool]] = []

    def model(request: ModelRequest) -> Sequence[Step]:
        flushes = any(tool.name == "memory_append" for tool in request.tools)
        kind = "summary" if is_summary(request) else "notes" if flushes else "turn"
        refused = tokens(request) > 3000  # its window is far smaller than the configured one
        requests.append((kind, tokens(request), refused))
        if refused:
            return [ModelOverflowError("too long")]
        return ["Short."] if kind == "summary" else ["NO_REPLY"] if flushes else echo(request)

    async with open_core(tmp_path, ScriptedModel(model)) as core:
        core.models.info = replace(MODEL, context_window=32_000, max_tokens=500)
        for number in range(16):
            await core.ask(f"message {number} " + "blue " * 400)
    refusals = [index for index, (_, _, refused) in enumerate(requests) if refused]
    assert refusals
    for index in refusals:
        (kind, size, _), (_, following, refused) = requests[index], requests[index + 1]
        assert (kind, refused) == ("turn", False)
        assert following < size
    assert ("notes", False) in {(kind, refused) for kind, _, refused in requests}


async def test_notes_that_a_model_refuses_as_too_long_are_asked_for_in_smaller_parts(
    tmp_path: Path,
) -> None:
    accepted = refused = 0

    def model(request: ModelRequest) -> Sequence[Step]:
        nonlocal accepted, refused
        if is_summary(request):
            return ["Short."]
        if not any(tool.name == "memory_append" for tool in request.tools):
            return echo(request)
        if tokens(request) > 2000:
            refused += 1
            return [ModelOverflowError("too long")]
        accepted += 1
        return ["NO_REPLY"]

    async with open_core(tmp_path, ScriptedModel(model)) as core:
        core.models.info = replace(MODEL, context_window=12_000, max_tokens=500)
        for number in range(16):
            await core.ask(f"message {number} " + "blue " * 400)
        stored_state = await state(core)
    assert refused
    assert accepted
    assert stored_state.flushed >= 0


async def test_who_is_refused_for_good_is_told_and_loses_nothing(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> Sequence[Step]:
        return ["Short."] if is_summary(request) else [ModelOverflowError("too long")]

    scripted = ScriptedModel(model)
    async with open_core(tmp_path, scripted, agents=AGENTS) as core:
        result = await core.ask("hello")
        assert result.error is not None
        assert result.error.code == "model.overflow"
        assert "/reset" not in result.error.message
        assert "larger window" in result.error.message
        assert len(calls(scripted, summaries=False)) == 1  # nothing of it could be made shorter
        assert (await core.transcript())[0].text == "hello"


@pytest.mark.parametrize(
    "summary",
    [[""], [ModelRequestError("no")], ["word " * 4000]],
    ids=["empty", "failing", "larger"],
)
async def test_a_session_goes_on_when_no_model_makes_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summary: list[Step]
) -> None:
    monkeypatch.setattr("skerry.runtime.compaction.summarizer.RETRIES", Backoff(base=0.0, cap=0.0))

    def model(request: ModelRequest) -> Sequence[Step]:
        return summary if is_summary(request) else echo(request)

    async with open_core(tmp_path, ScriptedModel(model), agents=AGENTS) as core:
        await talk(core, 16)
        stored_state = await state(core)
        ends = core.ends()
    assert stored_state.last is not None
    assert not stored_state.last.by_model
    assert "## Requests of the person" in stored_state.last.text
    assert {result.stop_reason for result in ends} == {StopReason.DONE}


async def test_a_demonstration_model_is_not_asked_for_a_summary(tmp_path: Path) -> None:
    model = ScriptedModel(talker)
    async with open_core(tmp_path, model, agents=AGENTS) as core:
        core.models.info = replace(SMALL, prompt_limit=300)
        for number in range(16):
            await core.ask(f"message {number} " + "blue " * 40)
        stored_state = await state(core)
    assert stored_state.last is not None
    assert not stored_state.last.by_model
    assert not calls(model, summaries=True)


async def test_a_long_tool_loop_is_compacted_within_its_turn(tmp_path: Path) -> None:
    step = 0

    def model(request: ModelRequest) -> Sequence[Step]:
        nonlocal step
        if is_summary(request):
            return ["Read some files."]
        step += 1
        assert tokens(request) < 2000
        _pairs(request)
        if step > 30:
            return ["done"]
        return [ToolCall(f"c{step}", "read", {"path": "a.txt"})]

    async with open_core(tmp_path, ScriptedModel(model), agents=AGENTS) as core:
        core.models.info = SMALL
        (core.workspace / "a.txt").write_text("tide " * 60)
        result = await core.ask("read it thirty times")
        stored_state = await state(core)
        messages = await core.transcript()
    assert result.payloads == ("done",)
    assert stored_state.count >= 1
    assert stored_state.last is not None
    assert "read it thirty times" in stored_state.last.text  # the turn that was split
    assert stored_state.last.read_files == ("a.txt",)
    assert sum(isinstance(message, ToolResultMessage) for message in messages) == 30


def _pairs(request: ModelRequest) -> None:
    """Checks that every result follows its call."""
    open_calls: list[str] = []
    for message in request.history.messages[request.first :]:
        match message:
            case AssistantMessage():
                assert not open_calls
                open_calls = [call.id for call in message.tool_calls]
            case ToolResultMessage():
                assert message.tool_call_id == open_calls.pop(0)
            case _:
                assert not open_calls


@pytest.mark.requirement("compaction-chat-command")
async def test_compact_is_a_command_that_takes_instructions(tmp_path: Path) -> None:
    model = ScriptedModel(talker)
    table = CommandTable()
    async with open_core(tmp_path, model, agents=AGENTS, commands=table) as core:
        for command in context_commands(core.store):
            table.add(command)
        assert "nothing to summarise" in (await core.ask("/compact", "c0")).payloads[0]
        await talk(core, 4)
        (answer,) = (await core.ask("/compact keep the boats", "c1")).payloads
        assert "Compacted" in answer
        assert "The person asks in particular: keep the boats" in sent(
            calls(model, summaries=True)[0]
        )
        await talk(core, 1, begin=4)
        last = sent(calls(model, summaries=False)[-1])
        stored_state = await state(core)
    assert stored_state.last is not None
    assert stored_state.last.trigger == "manual"
    assert "We spoke of boats." in last
    assert "/compact" not in last


async def test_an_abort_in_a_summary_leaves_the_conversation_as_it_was(tmp_path: Path) -> None:
    gate = ReplyGate()

    def model(request: ModelRequest) -> Sequence[Step]:
        return [gate] if is_summary(request) else echo(request)

    async with open_core(tmp_path, ScriptedModel(model), agents=AGENTS) as core:
        core.models.info = replace(SMALL, context_window=1_000_000)
        for number in range(12):
            await core.ask(f"message {number} " + "blue " * 60)
        core.models.info = SMALL
        await core.dispatch.submit(request("the last straw"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        core.dispatch.abort(MAIN, None, "test")
        result = await core.dispatch.wait(request("the last straw").run_id, 60)
        assert result is not None
        assert result.stop_reason is StopReason.ABORTED
        assert (await state(core)).count == 0
        core.models.info = replace(SMALL, context_window=1_000_000)
        assert (await core.ask("go on")).payloads == ("echo: go on",)


@pytest.mark.requirement("agent-stream-compaction")
async def test_clients_are_told_that_it_begins_and_ends(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(talker), agents=AGENTS) as core:
        await talk(core, 16)
        bodies = [event.body for event in core.events]
    begin = bodies.index(CompactionStarted())
    assert bodies[begin + 1] == CompactionEnded(done=True)


async def test_where_it_is_switched_off_only_the_end_is_sent(tmp_path: Path) -> None:
    off = AgentsConfig(defaults=AgentDefaults(compaction=Compaction(enabled=False)))
    model = ScriptedModel(talker)
    async with open_core(tmp_path, model, agents=off) as core:
        await talk(core, 24)
        assert (await state(core)).count == 0
    assert all(tokens(request) < 2000 for request in calls(model, summaries=False))
