"""The double loop: inside, tool calls and steering; outside, follow-ups.

The order of events is that of openclaw-behaviour 6.1. A failed model call is a message with stop
reason `error`, not an exception, so the loop has one exit. A run is aborted by cancelling the loop;
`close` then ends the open calls and messages.
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
"""Text of pi-agent-core, which models have learned (openclaw-behaviour 6.1)."""


class LoopPorts(Struct, frozen=True):
    """Functions that the loop calls."""

    respond: Callable[[], Awaitable[AssistantMessage]]
    """Requests one response to the history and emits its updates. A model's failure is a message
    with stop reason `error`."""
    execute: Callable[[ToolCall], Awaitable[ToolResultMessage]]
    """Runs one tool call. A tool's failure is a result with `is_error`."""
    save: Callable[[Sequence[Message]], Awaitable[None]]
    """Makes messages durable; awaited before a tool starts and after it ended."""
    steered: Callable[[], bool]
    """Returns whether a message waits to enter, so that the remaining tool calls are skipped."""
    steering: Callable[[Sequence[Message]], Awaitable[Sequence[UserMessage]]]
    """Returns the messages that enter the run now. If there are any, they are made durable, after
    the given unsaved messages."""
    follow_ups: Callable[[Sequence[Message]], Awaitable[Sequence[UserMessage]]]
    """Returns the messages that continue a run which would stop, made durable in the same way."""
    add: Callable[[Message], None]
    """Adds a message to the history for the next response."""
    emit: Callable[[LoopEvent], None]
    now_ms: Callable[[], int]


class AgentLoop(Struct):
    """The loop of one run. `messages` has the new messages; `unsaved` those not durable yet."""

    ports: LoopPorts
    messages: list[Message] = field(default_factory=list)
    unsaved: list[Message] = field(default_factory=list)
    _at: LoopEvent = field(default_factory=LoopStarted)
    """The last emitted event, from which `close` continues."""

    async def run(self, prompt: UserMessage, earlier: Sequence[Message] = ()) -> AssistantMessage:
        """Answers `prompt`, which is durable and in the history; returns the last response.

        `earlier` has the run's messages from an earlier process, also durable and in the history.
        Their open tool calls, which have no effect, are made again, and the run continues.
        """
        self._emit(LoopStarted())
        self._emit(TurnStart())
        self.messages.append(prompt)
        self._emit_message(prompt)
        self.messages.extend(earlier)
        await anyio.lowlevel.checkpoint_if_cancelled()  # aborted while it waited for its turn
        await self._make_calls(open_calls(earlier))
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
        """Ends a cancelled or failed loop: adds results for open calls, and `last`.

        Every start event that the loop has emitted gets its end event.
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
        """Requests a response and runs its tool calls; returns it and the messages that enter."""
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
        """Returns the messages that enter; the unsaved messages before them are then durable."""
        entered = await poll(self.unsaved)
        if entered:
            self.unsaved.clear()
        return entered

    async def _make_calls(self, calls: Sequence[ToolCall]) -> list[ToolResultMessage]:
        """Runs tool calls in order, skips those after a steering message; returns the results."""
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
