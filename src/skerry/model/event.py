"""What a run tells while it works.

Two families. Loop events are the fine grain of the agent loop, in the order of
openclaw-behaviour 6.1; they stay in the process. Run events are what clients see on the streams
`lifecycle`, `assistant`, `thinking`, `tool` and `compaction`.
"""

from dataclasses import dataclass
from typing import Any

from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import AssistantMessage, Message, ToolCall, ToolResultMessage
from skerry.model.run import RunResult


@dataclass(frozen=True, slots=True)
class AgentStart:
    """The loop begins."""


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A model response begins."""


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message begins; None for the assistant's, which is not known yet."""

    message: Message | None


@dataclass(frozen=True, slots=True)
class MessageUpdate:
    """Text that the model added; all pieces of one network read together."""

    delta: str


@dataclass(frozen=True, slots=True)
class ThinkingUpdate:
    """Thinking that the model added, likewise."""

    delta: str


@dataclass(frozen=True, slots=True)
class MessageWithdrawn:
    """What the response said so far does not count: its model failed, and another is asked."""


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """A message is complete."""

    message: Message


@dataclass(frozen=True, slots=True)
class ToolExecutionStart:
    """A tool call begins."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolExecutionEnd:
    """A tool call ended, ran or was skipped."""

    call: ToolCall
    result: ToolResultMessage


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A response and the results of its tool calls are complete."""

    message: AssistantMessage
    results: tuple[ToolResultMessage, ...]


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """The loop ended; `messages` are all new ones, in order."""

    messages: tuple[Message, ...]


LoopEvent = (
    AgentStart
    | TurnStart
    | MessageStart
    | MessageUpdate
    | ThinkingUpdate
    | MessageWithdrawn
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionEnd
    | TurnEnd
    | AgentEnd
)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Stream lifecycle, phase start."""

    at: int
    joined: RunId | None = None
    """The run that its message has entered, which answers it."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Stream assistant: text that was added since the last one."""

    delta: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Stream thinking: thinking that was added since the last one."""

    delta: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """A response is complete; text that follows in this run is another one's."""


@dataclass(frozen=True, slots=True)
class TextWithdrawn:
    """What the present response said, text and thinking, does not count: it begins anew."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Stream tool, phase start."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """Stream tool, phase result."""

    call_id: str
    name: str
    is_error: bool
    text: str


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """Stream compaction, phase start: what was said long ago is about to be summarised."""


@dataclass(frozen=True, slots=True)
class CompactionEnded:
    """Stream compaction, phase end."""

    done: bool
    """Whether anything was summarised."""
    will_retry: bool = False
    """Whether the model, for which it was too long, is asked again."""


@dataclass(frozen=True, slots=True)
class RunEnded:
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
    | CompactionStarted
    | CompactionEnded
    | RunEnded
)


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One run event and the run it belongs to."""

    run_id: RunId
    session_key: str
    session_id: SessionId
    agent_id: AgentId
    body: RunEventBody
