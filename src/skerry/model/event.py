"""Events that a run emits while it works.

There are two families. Loop events are the detailed events of the agent loop, in the order of
openclaw-behaviour 6.1; they are not sent to clients. Run events are sent to clients on the streams
`lifecycle`, `assistant`, `thinking`, `tool` and `compaction`.
"""

from typing import Any

from msgspec import Struct

from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import AssistantMessage, Message, ToolCall, ToolResultMessage
from skerry.model.run import RunResult


class LoopStarted(Struct, frozen=True):
    """The loop begins."""


class TurnStart(Struct, frozen=True):
    """A model response begins."""


class MessageStart(Struct, frozen=True):
    """A message begins; None for the assistant's message, which does not exist yet."""

    message: Message | None


class MessageUpdate(Struct, frozen=True):
    """Text that the model added in one network read."""

    delta: str


class ThinkingUpdate(Struct, frozen=True):
    """Thinking that the model added in one network read."""

    delta: str


class MessageWithdrawn(Struct, frozen=True):
    """Withdraws the text of the response so far: its model failed, and another is called."""


class MessageEnd(Struct, frozen=True):
    """A message is complete."""

    message: Message


class ToolExecutionStart(Struct, frozen=True):
    """A tool call begins."""

    call: ToolCall


class ToolExecutionEnd(Struct, frozen=True):
    """A tool call ended or was skipped."""

    call: ToolCall
    result: ToolResultMessage


class TurnEnd(Struct, frozen=True):
    """A response and the results of its tool calls are complete."""

    message: AssistantMessage
    results: tuple[ToolResultMessage, ...]


class LoopEnded(Struct, frozen=True):
    """The loop ended; `messages` are all new messages, in order."""

    messages: tuple[Message, ...]


LoopEvent = (
    LoopStarted
    | TurnStart
    | MessageStart
    | MessageUpdate
    | ThinkingUpdate
    | MessageWithdrawn
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionEnd
    | TurnEnd
    | LoopEnded
)


class RunStarted(Struct, frozen=True):
    """Stream lifecycle, phase start."""

    at: int
    joined: RunId | None = None
    """The run that its message has entered and that answers it."""


class TextDelta(Struct, frozen=True):
    """Stream assistant: text that was added since the last event."""

    delta: str


class ThinkingDelta(Struct, frozen=True):
    """Stream thinking: thinking that was added since the last event."""

    delta: str


class TextEnded(Struct, frozen=True):
    """A response is complete; later text of this run belongs to another response."""


class TextWithdrawn(Struct, frozen=True):
    """Withdraws the text and thinking of the present response: it starts again."""


class ToolStarted(Struct, frozen=True):
    """Stream tool, phase start."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolFinished(Struct, frozen=True):
    """Stream tool, phase result."""

    call_id: str
    name: str
    is_error: bool
    text: str
    details: dict[str, Any] | None = None


class ToolUpdated(Struct, frozen=True):
    """Stream tool, phase update: the whole output so far of a call that runs."""

    call_id: str
    name: str
    text: str
    details: dict[str, Any] | None = None


class CompactionStarted(Struct, frozen=True):
    """Stream compaction, phase start: old entries are about to be summarised."""


class CompactionEnded(Struct, frozen=True):
    """Stream compaction, phase end."""

    done: bool
    """True if entries were summarised."""
    will_retry: bool = False
    """True if the model whose context was exceeded is called again."""


class RunEnded(Struct, frozen=True):
    """Stream lifecycle, phase end or error: exactly one for each run, after its COMMIT."""

    result: RunResult


RunEventBody = (
    RunStarted
    | TextDelta
    | ThinkingDelta
    | TextEnded
    | TextWithdrawn
    | ToolStarted
    | ToolFinished
    | ToolUpdated
    | CompactionStarted
    | CompactionEnded
    | RunEnded
)


class RunEvent(Struct, frozen=True):
    """One run event and its run."""

    run_id: RunId
    session_key: str
    session_id: SessionId
    agent_id: AgentId
    body: RunEventBody
