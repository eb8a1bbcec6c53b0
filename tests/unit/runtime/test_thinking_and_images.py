"""Thinking and images on their whole way through a run."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentConfig, AgentDefaults, AgentsConfig
from skerry.model.event import TextDelta, ThinkingDelta
from skerry.model.ids import AgentId, RunId, SessionKey
from skerry.model.message import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall
from skerry.model.queue import QueueMode
from skerry.model.run import RunRequest
from skerry.model.thinking import ThinkingLevel, nearest
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel
from tests.support.core import MAIN, Core, open_core, request

THINKS = replace(MODEL, reasoning=True)
IMAGE = ImageBlock("aGk=", "image/png")
THOUGHT = ThinkingBlock("Hm.", "signature")


async def run(core: Core, request: RunRequest) -> None:
    await core.dispatch.submit(request)
    with anyio.fail_after(60):
        await core.dispatch.wait(request.run_id, None)


async def test_thinking_is_told_and_kept_and_goes_back_within_the_tool_loop(
    tmp_path: Path,
) -> None:
    call = ToolCall("c1", "read", {"path": "a"})
    model = ScriptedModel([[THOUGHT, "I look.", call], ["done"]])
    async with open_core(tmp_path, model) as core:
        await core.ask("hi")
        bodies = [event.body for event in core.events]
        assert bodies.index(ThinkingDelta("Hm.")) < bodies.index(TextDelta("I look."))
        messages = await core.transcript()
    assert messages[1].content == (THOUGHT, TextBlock("I look."), call)
    assert model.requests[1].messages[1] == messages[1]


async def test_what_an_aborted_response_thought_is_kept(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[THOUGHT, "so", gate]])) as core:
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            core.dispatch.abort(MAIN, None, "test")
            result = await core.dispatch.wait(RunId("hi"), None)
        last = (await core.transcript())[-1]
    assert isinstance(last, AssistantMessage)
    assert last.content == (ThinkingBlock("Hm."), TextBlock("so"))
    assert result is not None
    assert result.payloads == ("so",)


def agents(**levels: ThinkingLevel) -> AgentsConfig:
    agent_config = AgentConfig(id=AgentId("main"), thinking_default=levels.get("own"))
    defaults = AgentDefaults(thinking_default=levels.get("default"))
    return AgentsConfig(defaults=defaults, list=(agent_config,))


@pytest.mark.parametrize(
    ("configured", "requested", "level"),
    [
        (agents(), None, "low"),
        (agents(default=ThinkingLevel.HIGH), None, "high"),
        (agents(default=ThinkingLevel.HIGH, own=ThinkingLevel.OFF), None, "off"),
        (agents(default=ThinkingLevel.HIGH), ThinkingLevel.MINIMAL, "minimal"),
    ],
)
@pytest.mark.requirement("agent-command-resolves-defaults")
async def test_the_request_says_how_much_to_think_else_the_agent_else_all_agents(
    tmp_path: Path, configured: AgentsConfig, requested: ThinkingLevel | None, level: str
) -> None:
    model = ScriptedModel([["a"], ["b"]])
    async with open_core(tmp_path, model, agents=configured) as core:
        core.models.info = THINKS
        await run(core, replace(request("hi"), thinking=requested))
        core.models.info = MODEL
        await run(core, replace(request("ho"), thinking=ThinkingLevel.HIGH))
    assert [call.request.thinking for call in model.requests] == [level, "off"]
    assert model.requests[0].request.session_id == model.requests[1].request.session_id != ""


async def test_an_image_is_in_the_transcript_and_reaches_the_model(tmp_path: Path) -> None:
    model = ScriptedModel([["a cat"], ["still a cat"]])
    async with open_core(tmp_path, model) as core:
        await run(core, replace(request("what?"), images=(IMAGE,)))
        assert (await core.transcript())[0].content == (TextBlock("what?"), IMAGE)
        await core.ask("sure?")
    assert [message.content for message in model.requests[1].request.history.messages[:1]] == [
        (TextBlock("what?"), IMAGE)
    ]


async def test_an_image_enters_a_run_that_is_on(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["one", gate], ["two"]])
    guest = replace(request("and this?", queue_mode=QueueMode.STEER), images=(IMAGE,))
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            await core.dispatch.submit(guest)
            gate.open()
            await core.dispatch.wait(guest.run_id, None)
        assert (await core.transcript())[2].content == (TextBlock("and this?"), IMAGE)


async def test_images_of_accepted_work_survive_until_it_is_done_and_are_kept_once(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    large = ImageBlock("A" * 100_000, "image/png")
    waiting = replace(request("second"), images=(large,))

    async def stored() -> object:
        query = "SELECT request FROM run WHERE run_id = 'second'"
        row = await core.store.read(lambda reader: reader.one(query))
        assert row is not None
        return row[0]

    async with open_core(tmp_path, ScriptedModel([[gate, "a"], ["b"]])) as core:
        await core.dispatch.submit(request("first"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            await core.dispatch.submit(waiting)
            assert large.data in str(await stored())
            gate.open()
            await core.dispatch.wait(waiting.run_id, None)
        assert await stored() == b""
        assert (await core.transcript())[2].content[1:] == (large,)


async def test_less_thinking_than_was_asked_for_is_told_once_in_a_conversation(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(lambda _: ["a"])
    async with open_core(tmp_path, model) as core:
        core.models.info = replace(THINKS, thinking=(ThinkingLevel.LOW, ThinkingLevel.HIGH))
        for name in ("hi", "again"):
            await run(core, replace(request(name), thinking=ThinkingLevel.XHIGH))
        core.models.info = MODEL
        await run(core, replace(request("plain"), thinking=ThinkingLevel.XHIGH))
        await core.ask("nobody asked for a level")
        notices = [result.notices for result in core.ends()]
    assert [call.request.thinking for call in model.requests] == ["high", "high", "off", "off"]
    assert notices == [
        ("test/script has no thinking level xhigh; it used high.",),
        (),
        ("test/script has no thinking level xhigh; it used off.",),
        (),
    ]


async def test_it_is_not_told_again_after_a_restart_but_in_the_next_conversation(
    tmp_path: Path,
) -> None:
    other_key = SessionKey.parse("agent:main:other")
    notices = []
    for name, key in (("one", MAIN), ("two", MAIN), ("three", other_key)):
        async with open_core(tmp_path, ScriptedModel(lambda _: ["a"])) as core:
            await run(core, replace(request(name, key=key), thinking=ThinkingLevel.XHIGH))
            (end,) = core.ends()
            notices.append(len(end.notices))
    assert notices == [1, 0, 1]


@pytest.mark.parametrize(
    ("requested", "levels", "expected"),
    [
        ("xhigh", ("low", "high"), "high"),
        ("minimal", ("low", "high"), "low"),
        ("medium", ("low", "high"), "low"),
        ("off", ("low",), "low"),
        ("high", (), "off"),
    ],
)
def test_the_nearest_level_is_not_above_what_was_asked_where_there_is_one(
    requested: str, levels: tuple[str, ...], expected: str
) -> None:
    assert nearest(ThinkingLevel(requested), [ThinkingLevel(level) for level in levels]) == expected
