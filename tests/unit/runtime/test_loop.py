"""The double loop: the order of events, the durable messages, and an early end."""

from collections import deque
from collections.abc import Iterable, Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from skerry.model.event import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from skerry.model.message import (
    ABORTED_RESULT,
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    open_calls,
    user,
)
from skerry.runtime.loop import SKIPPED, AgentLoop, LoopPorts
from skerry.testing.clock import FakeClock
from tests.support.shown import examples

PROMPT = user("prompt", 0)


def say(*content: str | ToolCall, stop: str = "stop") -> AssistantMessage:
    blocks = tuple(TextBlock(block) if isinstance(block, str) else block for block in content)
    return AssistantMessage(blocks, "", "", "", Usage(), stop, 0)


def call(name: str) -> ToolCall:
    return ToolCall(name, "tool", {})


class Stage:
    """The loop's surroundings: a script of responses, mailboxes, and all that was done."""

    def __init__(self, *script: AssistantMessage | None) -> None:
        self.script = list(script)
        """None never answers."""
        self.steering: deque[UserMessage] = deque()
        self.follow_ups: deque[UserMessage] = deque()
        self.steer_after: dict[str, str] = {}
        """The messages of the person during each tool call."""
        self.hang_in: str = ""
        self.emitted: list[LoopEvent] = []
        self.history: list[Message] = [PROMPT]
        self.durable: list[Message] = [PROMPT]
        self.durable_at_tool: list[list[Message]] = []
        self.asked_with: list[list[Message]] = []
        self.loop = AgentLoop(
            LoopPorts(
                respond=self.respond,
                execute=self.execute,
                save=self.save,
                steered=lambda: bool(self.steering),
                steering=lambda unsaved: self.enter(self.steering, unsaved),
                follow_ups=lambda unsaved: self.enter(self.follow_ups, unsaved),
                add=self.history.append,
                emit=self.emitted.append,
                now_ms=FakeClock(7).now_ms,
            )
        )

    async def respond(self) -> AssistantMessage:
        self.asked_with.append([*self.history])
        message = self.script.pop(0)
        self.emitted.append(MessageUpdate("…"))
        if message is None:
            await anyio.sleep_forever()
            raise AssertionError
        return message

    async def execute(self, tool_call: ToolCall) -> ToolResultMessage:
        self.durable_at_tool.append([*self.durable])
        if tool_call.id == self.hang_in:
            await anyio.sleep_forever()
        if tool_call.id in self.steer_after:
            self.steering.append(user(self.steer_after[tool_call.id], 0))
        return ToolResultMessage(
            tool_call.id, tool_call.name, (TextBlock("ok"),), is_error=False, timestamp=0
        )

    async def save(self, messages: Sequence[Message]) -> None:
        self.durable += messages

    async def enter(
        self, mailbox: deque[UserMessage], unsaved: Sequence[Message]
    ) -> Sequence[UserMessage]:
        if not mailbox:
            return []
        entered = mailbox.popleft()
        self.durable += [*unsaved, entered]
        return [entered]

    async def abort(self) -> None:
        """Runs until it hangs, then ends it as the run does."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.loop.run, PROMPT)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        self.loop.close(say("so far", stop="aborted"))

    def events(self) -> list[str]:
        return [name(event) for event in self.emitted]


def name(event: LoopEvent) -> str:
    words = {
        "LoopStarted": "agent(",
        "LoopEnded": ")agent",
        "TurnStart": "turn(",
        "TurnEnd": ")turn",
    }
    match event:
        case MessageStart(message):
            return f"{'assistant' if message is None else message_role(message)}("
        case MessageEnd(message):
            return f"){message_role(message)}"
        case MessageUpdate():
            return "…"
        case ToolExecutionStart(one):
            return f"tool {one.id}("
        case ToolExecutionEnd(one):
            return f")tool {one.id}"
    return words[type(event).__name__]


def message_role(message: Message) -> str:
    return type(message).__name__.removesuffix("Message").lower()


def words(*lines: str) -> list[str]:
    """Returns the words of the lines; `tool X(` is one word."""
    joined = " ".join(lines).replace("tool ", "tool\0")
    return [word.replace("\0", " ") for word in joined.split()]


PERSON = "user( )user"
ANSWER = "assistant( … )assistant"


def tool(text: str) -> str:
    return f"tool {text}( )tool {text} toolresult( )toolresult"


async def test_a_plain_turn_tells_these_events_in_this_order() -> None:
    stage = Stage(say("hello"))
    assert await stage.loop.run(PROMPT) == say("hello")
    assert stage.events() == words(f"agent( turn( {PERSON} {ANSWER} )turn )agent")
    assert stage.loop.messages == [PROMPT, say("hello")]
    assert stage.loop.unsaved == [say("hello")]  # the unit that ends the run writes it


async def test_a_tool_turn_tells_these_events_in_this_order() -> None:
    stage = Stage(say("let me see", call("a"), call("b"), stop="toolUse"), say("done"))
    await stage.loop.run(PROMPT)
    assert stage.events() == words(
        f"agent( turn( {PERSON} {ANSWER} {tool('a')} {tool('b')} )turn",
        f"turn( {ANSWER} )turn )agent",
    )


async def test_a_call_is_durable_before_its_tool_starts_and_its_result_before_the_next() -> None:
    response = say(call("a"), call("b"), stop="toolUse")
    stage = Stage(response, say("done"))
    await stage.loop.run(PROMPT)
    assert stage.durable_at_tool[0] == [PROMPT, response]
    assert [message_role(message) for message in stage.durable_at_tool[1]] == [
        *("user", "assistant", "toolresult")
    ]


@pytest.mark.requirement("loop-steering-after-each-tool")
async def test_steering_after_a_tool_skips_the_rest_and_the_model_sees_the_message() -> None:
    stage = Stage(say(call("a"), call("b"), call("c"), stop="toolUse"), say("as you wish"))
    stage.steer_after = {"a": "stop"}
    await stage.loop.run(PROMPT)
    assert stage.events() == words(
        f"agent( turn( {PERSON} {ANSWER} {tool('a')} {tool('b')} {tool('c')} )turn",
        f"turn( {PERSON} {ANSWER} )turn )agent",
    )
    results = [message for message in stage.history if isinstance(message, ToolResultMessage)]
    assert [(result.text, result.is_error) for result in results] == [
        *(("ok", False), (SKIPPED, True), (SKIPPED, True))
    ]
    assert len(stage.durable_at_tool) == 1  # the skipped ones were not run
    assert stage.asked_with[1][-1] == user("stop", 0)


async def test_messages_enter_one_at_a_time_each_before_a_response() -> None:
    stage = Stage(say("1"), say("2"), say("3"))
    stage.steering.extend([user("early", 0), user("next", 0)])
    await stage.loop.run(PROMPT)
    assert stage.events() == words(
        f"agent( turn( {PERSON} {PERSON} {ANSWER} )turn turn( {PERSON} {ANSWER} )turn )agent"
    )
    assert stage.durable == stage.history[: len(stage.durable)]  # in the same order


@pytest.mark.requirement("loop-double")
async def test_a_follow_up_continues_a_run_that_would_stop_and_not_before() -> None:
    stage = Stage(say(call("a"), stop="toolUse"), say("one"), say("two"))
    stage.follow_ups.append(user("and then", 0))
    await stage.loop.run(PROMPT)
    assert stage.events() == words(
        f"agent( turn( {PERSON} {ANSWER} {tool('a')} )turn turn( {ANSWER} )turn",
        f"turn( {PERSON} {ANSWER} )turn )agent",
    )
    assert stage.asked_with[2][-1] == user("and then", 0)


@pytest.mark.parametrize("stop", ["error", "aborted"])
async def test_a_failed_response_ends_the_loop_and_lets_nothing_enter(stop: str) -> None:
    stage = Stage(say("par", call("a"), stop=stop))
    await_entry = user("later", 0)
    stage.follow_ups.append(await_entry)
    assert (await stage.loop.run(PROMPT)).stop_reason == stop
    assert stage.events() == words(f"agent( turn( {PERSON} {ANSWER} )turn )agent")
    assert list(stage.follow_ups) == [await_entry]


async def test_an_abort_in_a_response_ends_what_was_begun() -> None:
    stage = Stage(None)
    await stage.abort()
    assert stage.events() == words(f"agent( turn( {PERSON} {ANSWER} )turn )agent")
    assert stage.loop.unsaved == [say("so far", stop="aborted")]


async def test_an_abort_in_a_tool_closes_every_open_call() -> None:
    stage = Stage(say(call("a"), call("b"), call("c"), stop="toolUse"))
    stage.hang_in = "b"
    await stage.abort()
    assert stage.events() == words(
        f"agent( turn( {PERSON} {ANSWER} {tool('a')} {tool('b')} {tool('c')}",
        "assistant( )assistant )turn )agent",
    )
    results = [message for message in stage.loop.unsaved if isinstance(message, ToolResultMessage)]
    assert [(result.tool_call_id, result.text) for result in results] == [
        *(("b", ABORTED_RESULT), ("c", ABORTED_RESULT))
    ]
    assert [*stage.durable, *stage.loop.unsaved] == stage.history


async def test_an_abort_between_two_turns_opens_a_turn_for_its_end() -> None:
    stage = Stage(say("one"))
    polls = 0

    async def steering(_: Sequence[Message]) -> Sequence[UserMessage]:
        nonlocal polls
        polls += 1
        if polls == 2:  # the first is before the first response
            await anyio.sleep_forever()
        return []

    stage.loop.ports = replace(stage.loop.ports, steering=steering)
    await stage.abort()
    assert stage.events() == words(
        f"agent( turn( {PERSON} {ANSWER} )turn turn( assistant( )assistant )turn )agent"
    )


async def test_a_run_that_was_aborted_while_it_waited_asks_nobody() -> None:
    stage = Stage(say("never"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stage.loop.run(PROMPT)
    stage.loop.close(say(stop="aborted"))
    assert stage.asked_with == []
    assert stage.events() == words(f"agent( turn( {PERSON} assistant( )assistant )turn )agent")


@st.composite
def scripts(draw: st.DrawFn) -> Iterable[AssistantMessage | None]:
    replies: list[AssistantMessage | None] = [
        say(*(call(f"{turn}.{n}") for n in range(draw(st.integers(0, 3)))), stop="toolUse")
        for turn in range(draw(st.integers(0, 3)))
    ]
    return [*replies, draw(st.sampled_from([say("end"), say("no", stop="error"), None]))]


@settings(max_examples=examples(60))
@given(
    scripts(),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "0.0", "0.1", "1.0", "1.2", "2.1"]),
    st.sampled_from(["", "0.0", "1.1"]),
)
def test_every_start_has_its_end_and_every_call_its_result(
    script: list[AssistantMessage | None], steers: int, follows: int, hang: str, steer_after: str
) -> None:
    async def play() -> Stage:
        ends = [say("more") for _ in range(steers + follows + 6)]
        stage = Stage(*script, *ends)
        stage.steering.extend(user(f"s{n}", 0) for n in range(steers))
        stage.follow_ups.extend(user(f"f{n}", 0) for n in range(follows))
        stage.hang_in = hang
        stage.steer_after = {steer_after: "stop"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.loop.run, PROMPT)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        if stage.events()[-1] != ")agent":
            stage.loop.close(say(stop="aborted"))
        return stage

    stage = anyio.run(play)
    open_: list[str] = []
    for event in stage.events():
        if event.endswith("("):
            open_.append(event[:-1])
        elif event.startswith(")"):
            assert open_.pop() == event[1:]
    assert open_ == []
    assert stage.events().count(")agent") == 1
    assert open_calls(stage.history) == []
    assert stage.history == stage.loop.messages == [*stage.durable, *stage.loop.unsaved]
    assert isinstance(stage.history[-1], AssistantMessage)
