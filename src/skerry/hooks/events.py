"""Events that handlers receive, and the run that each belongs to."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import Message

WEBCHAT = "webchat"
"""The channel of whoever speaks to the gateway itself: the page, the terminal, a program."""


class RunContext(Struct, frozen=True, kw_only=True):
    """The run that a hook belongs to, and its conversation."""

    run_id: RunId
    agent_id: AgentId
    session_key: str
    session_id: SessionId
    channel: str = WEBCHAT
    """Channel of the message: a chat platform's name, or `webchat`."""
    workspace: Path | None = None
    """The agent's directory; None where a start closes an interrupted run."""
    caller: Caller | None = None
    """Caller and conversation; None if nobody asks."""


class MessageReceived(Struct, frozen=True, kw_only=True):
    """A message that was accepted: it is stored and will be answered."""

    context: RunContext
    sender: str
    """The platform's id of who wrote it; empty for a client of the gateway."""
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
    """A command that somebody gave, as a message or by a button of the page."""

    name: str
    """Name without its slash, such as `new`, `reset`, `stop`."""
    agent_id: AgentId
    session_key: str
    session_id: SessionId | None = None
    """None where a button was pressed."""
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
    """The payload of the hook behind it."""
    workspace: Path | None
    """The directory of the agent that it concerns."""
    state_dir: Path


class AgentEnd(Struct, frozen=True, kw_only=True):
    """A run whose model has said its last word."""

    context: RunContext
    messages: tuple[Message, ...]
    """The whole conversation, as it was said: nothing that hooks put before the prompt."""
    new_messages: tuple[Message, ...]
    """Messages of this run, the prompt first."""
    success: bool
    error: str | None
    duration_ms: int


class MessageSent(Struct, frozen=True, kw_only=True):
    """A part of a reply that the platform took, or refused for good."""

    run_id: RunId
    channel: str
    account: str
    to: str
    """The platform's id of the chat."""
    content: str
    success: bool = True
    error: str | None = None
    message_ids: tuple[str, ...] = ()
    """The platform's ids of what it now shows."""


class SessionStart(Struct, frozen=True, kw_only=True):
    """A conversation that began."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    resumed_from: SessionId | None = None
    """The session that it follows under the same key, where one was reset or displaced."""


class BeforeReset(Struct, frozen=True, kw_only=True):
    """A conversation that is about to begin anew."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    """The session that ends."""
    messages: tuple[Message, ...]
    """Everything that was said in it."""
    reason: str
    """`new` or `reset`, as whoever asked put it."""


class BeforeCompaction(Struct, frozen=True, kw_only=True):
    """A conversation whose earlier part is about to be summarised."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    trigger: str
    """`threshold`, `overflow`, or `manual` where somebody asked for it."""
    message_count: int
    """Messages that the model would read without it."""
    token_count: int
    """About how many tokens they have, with the system prompt."""


class AfterCompaction(Struct, frozen=True, kw_only=True):
    """A conversation whose earlier part was summarised; every message is still stored."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    trigger: str
    message_count: int
    """Messages that the model reads now, the summary included."""
    token_count: int
    """About how many tokens they have."""
    compacted_count: int
    """Messages that the summary stands for since the one before."""
    summary: str
    by_model: bool
    """True when a model wrote the summary; false for an extract, because no model could."""


class SessionEnd(Struct, frozen=True, kw_only=True):
    """A conversation that ended: it is archived, and can be restored."""

    agent_id: AgentId
    session_key: str
    session_id: SessionId
    message_count: int
    duration_ms: int
    """Since it began."""
    reason: str
    """`new`, `reset`, `delete`, or `restore` when another session took its place."""


class GatewayStart(Struct, frozen=True, kw_only=True):
    """A gateway that takes messages from now on."""

    port: int


class GatewayStop(Struct, frozen=True, kw_only=True):
    """A gateway that takes no more messages."""

    reason: str
