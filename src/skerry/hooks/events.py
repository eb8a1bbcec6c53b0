"""Events that handlers receive, with the run of each."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import Message

WEBCHAT = "webchat"
"""The channel of a client of the gateway: the page, the terminal, a program."""


class RunContext(Struct, frozen=True, kw_only=True):
    """The run that a hook belongs to, and its conversation."""

    run_id: RunId
    agent_id: AgentId
    session_key: str
    session_id: SessionId
    channel: str = WEBCHAT
    """Channel of the message: a chat platform's name, or `webchat`."""
    workspace: Path | None = None
    """The agent's directory; None when a start of the gateway closes an interrupted run."""
    caller: Caller | None = None
    """Caller and conversation; None for a run without a caller."""


class MessageReceived(Struct, frozen=True, kw_only=True):
    """An accepted message: it is stored and will be answered."""

    context: RunContext
    sender: str
    """The platform's id of the sender; empty for a client of the gateway."""
    content: str
    timestamp: int
    """Milliseconds since 1970."""
    account: str = ""
    conversation: str = ""
    """The platform's id of the chat; empty for a client of the gateway."""
    message_id: str = ""
    """The platform's id of the message; empty for a client of the gateway."""
    thread_id: str | None = None


class CommandGiven(Struct, frozen=True, kw_only=True):
    """A command, typed in a message or given by a button of the page."""

    name: str
    """Name without its slash, such as `new`, `reset`, `stop`."""
    agent_id: AgentId
    session_key: str
    session_id: SessionId | None = None
    """None for a button."""
    arguments: str = ""
    channel: str = WEBCHAT
    is_owner: bool = True


class HookEvent(Struct, frozen=True, kw_only=True):
    """Event for the handler of a HOOK.md folder."""

    type: str
    """Type, such as `command`, `session`, `agent`, `gateway`, `message`."""
    action: str
    """Action, such as `new`; with the type it is the name in HOOK.md: `command:new`."""
    timestamp: int
    """Milliseconds since 1970."""
    payload: Any
    """The payload of the hook that emitted the event."""
    workspace: Path | None
    """The directory of the agent; None for an event without an agent."""
    state_dir: Path


class AgentEnd(Struct, frozen=True, kw_only=True):
    """A run after the last response of its model."""

    context: RunContext
    messages: tuple[Message, ...]
    """The whole conversation, without the context that hooks prepended to the prompt."""
    new_messages: tuple[Message, ...]
    """Messages of this run, the prompt first."""
    success: bool
    error: str | None
    duration_ms: int


class MessageSent(Struct, frozen=True, kw_only=True):
    """A part of a reply that the platform accepted or finally refused."""

    run_id: RunId
    channel: str
    account: str
    to: str
    """The platform's id of the chat."""
    content: str
    success: bool = True
    error: str | None = None
    message_ids: tuple[str, ...] = ()
    """The platform's ids of the messages that it made of the part."""


class SessionStart(Struct, frozen=True, kw_only=True):
    """A conversation that began."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    resumed_from: SessionId | None = None
    """The previous session under the same key, if it was reset or replaced."""


class BeforeReset(Struct, frozen=True, kw_only=True):
    """A conversation that is about to be reset."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    """The session that ends."""
    messages: tuple[Message, ...]
    """All messages of that session."""
    reason: str
    """`new` or `reset`: the command that was given."""


class BeforeCompaction(Struct, frozen=True, kw_only=True):
    """A conversation whose earlier messages are about to be summarised."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    trigger: str
    """`threshold`, `overflow`, or `manual` after a request."""
    message_count: int
    """Number of messages that the model would read without the compaction."""
    token_count: int
    """Their estimated tokens, with the system prompt."""


class AfterCompaction(Struct, frozen=True, kw_only=True):
    """A conversation whose earlier messages were summarised; all of them are still stored."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    trigger: str
    message_count: int
    """Number of messages that the model reads now, the summary included."""
    token_count: int
    """Their estimated tokens."""
    compacted_count: int
    """Number of messages after the previous summary that this one replaces."""
    summary: str
    by_model: bool
    """True when a model wrote the summary; false for an extract, because every model failed."""


class SessionEnd(Struct, frozen=True, kw_only=True):
    """A conversation that ended: it is archived, and can be restored."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    message_count: int
    duration_ms: int
    """Milliseconds since the conversation began."""
    reason: str
    """`new`, `reset`, `delete`, or `restore` when a restored session replaced it."""


class GatewayStart(Struct, frozen=True, kw_only=True):
    """A gateway that now accepts messages."""

    port: int


class GatewayStop(Struct, frozen=True, kw_only=True):
    """A gateway that no longer accepts messages."""

    reason: str
