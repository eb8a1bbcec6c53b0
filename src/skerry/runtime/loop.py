"""The double loop: inside, tool calls and steering; outside, follow-ups.

The order of events is that of openclaw-behaviour 6.1. A failed model call is a message with stop
reason `error`, not an exception, so the loop has one way out. Cancelling it is how a run is
aborted; `close` then ends what was open.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio.lowlevel
from msgspec import Struct, field

from skerry.model.event import (
    LoopEnded,
    LoopEvent,
    LoopStarted,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    aborted_result,
    open_calls,
)

SKIPPED: Final = "Skipped due to queued user message."
"""Wording of pi-agent-core, which models have learned to read (openclaw-behaviour 6.1)."""


class LoopPorts(Struct, frozen=True):
    """Functions that the loop calls."""

    respond: Callable[[], Awaitable[AssistantMessage]]
    """Streams one response to the history. Emits the message's updates. Never raises a model's
    failure."""
    execute: Callable[[ToolCall], Awaitable[ToolResultMessage]]
    """Runs one tool call. Never raises a tool's failure."""
    save: Callable[[Sequence[Message]], Awaitable[None]]
    """Makes messages durable; awaited before a tool starts and after it ended."""
    steered: Callable[[], bool]
    """True if a message waits to enter, so that the remaining tool calls are skipped."""
    steering: Callable[[Sequence[Message]], Awaitable[Sequence[UserMessage]]]
    """Returns the messages that enter the run now, made durable behind the unsaved ones given;
    those stay unsaved where nothing enters."""
    follow_ups: Callable[[Sequence[Message]], Awaitable[Sequence[UserMessage]]]
    """Returns the messages that are to continue the run that would stop, made durable likewise."""
    add: Callable[[Message], None]
    """Adds a message to the history that the next response sees."""
    emit: Callable[[LoopEvent], None]
    now_ms: Callable[[], int]


class AgentLoop(Struct):
    """One run of the loop. `messages` are the new ones, in order; `unsaved` are not durable yet."""

    ports: LoopPorts
    messages: list[Message] = field(default_factory=list)
    unsaved: list[Message] = field(default_factory=list)
    _at: LoopEvent = field(default_factory=LoopStarted)
    """The last event that the loop told: where it is, for `close`."""

    async def run(self, prompt: UserMessage, done: Sequence[Message] = ()) -> AssistantMessage:
        """Answers `prompt`, which is durable and in the history; returns the last response.

        `done` is what an earlier process has said and done to it, likewise: its open calls, which
        have no effect, are made again, and the run goes on.
        """
        self._emit(LoopStarted())
        self._emit(TurnStart())
        self.messages.append(prompt)
        self._emit_message(prompt)
        self.messages.extend(done)
        await anyio.lowlevel.checkpoint_if_cancelled()  # aborted while it waited for its turn
        await self._make_calls(open_calls(done))
        pending = await self._enter_from(self.ports.steering)
        first = True
        while True:
            if not first:
                self._emit(TurnStart())
            first = False
            self._enter(pending)
            message, pending = await self._turn()
            if message.stop_reason in {"error", "aborted"}:
                break
            if message.tool_calls or pending:
                continue
            pending = await self._enter_from(self.ports.follow_ups)
            if not pending:
                break
        self._emit(LoopEnded(tuple(self.messages)))
        return message

    def close(self, last: AssistantMessage) -> None:
        """Ends a loop that was cancelled or broke: pair open calls, add `last`, tell the end.

        What it had begun to tell is ended, so that every start has its end.
        """
        if isinstance(self._at, TurnEnd):
            self._emit(TurnStart())
        results: list[ToolResultMessage] = []
        for call in open_calls(self.messages):
            if self._at != ToolExecutionStart(call):
                self._emit(ToolExecutionStart(call))
            results.append(aborted_result(call, last.timestamp))
            self._finish_call(call, results[-1])
        if self._at != MessageStart(None):
            self._emit(MessageStart(None))
        self._add(last)
        self._emit(MessageEnd(last))
        self._emit(TurnEnd(last, tuple(results)))
        self._emit(LoopEnded(tuple(self.messages)))

    async def _turn(self) -> tuple[AssistantMessage, Sequence[UserMessage]]:
        """Takes one response and runs its tool calls; returns it and what is to enter next."""
        self._emit(MessageStart(None))
        message = await self.ports.respond()
        self._add(message)
        self._emit(MessageEnd(message))
        results: list[ToolResultMessage] = []
        if message.tool_calls and message.stop_reason not in {"error", "aborted"}:
            await self._save()
            results = await self._make_calls(message.tool_calls)
        self._emit(TurnEnd(message, tuple(results)))
        if message.stop_reason in {"error", "aborted"}:
            return message, ()
        return message, await self._enter_from(self.ports.steering)

    async def _enter_from(
        self, poll: Callable[[Sequence[Message]], Awaitable[Sequence[UserMessage]]]
    ) -> Sequence[UserMessage]:
        """Returns the messages that are to enter; what was unsaved before it is durable then."""
        entered = await poll(self.unsaved)
        if entered:
            self.unsaved.clear()
        return entered

    async def _make_calls(self, calls: Sequence[ToolCall]) -> list[ToolResultMessage]:
        """Makes calls of tools one by one, up to a message that steers; returns all results."""
        results: list[ToolResultMessage] = []
        skip = False
        for call in calls:
            self._emit(ToolExecutionStart(call))
            result = self._skip(call) if skip else await self.ports.execute(call)
            self._finish_call(call, result)
            results.append(result)
            await self._save()
            skip = skip or self.ports.steered()
        return results

    def _skip(self, call: ToolCall) -> ToolResultMessage:
        return ToolResultMessage(
            call.id, call.name, (TextBlock(SKIPPED),), is_error=True, timestamp=self.ports.now_ms()
        )

    def _finish_call(self, call: ToolCall, result: ToolResultMessage) -> None:
        self._add(result)
        self._emit(ToolExecutionEnd(call, result))
        self._emit_message(result)

    def _enter(self, messages: Sequence[UserMessage]) -> None:
        for message in messages:
            self.messages.append(message)
            self.ports.add(message)
            self._emit_message(message)

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.unsaved.append(message)
        self.ports.add(message)

    def _emit_message(self, message: Message) -> None:
        self._emit(MessageStart(message))
        self._emit(MessageEnd(message))

    def _emit(self, event: LoopEvent) -> None:
        self._at = event
        self.ports.emit(event)

    async def _save(self) -> None:
        await self.ports.save(self.unsaved)
        self.unsaved.clear()
