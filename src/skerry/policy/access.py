"""The table of needs: role, scope and rights that each method, event and command requires.

A method without a row stops the start; an event without a row cannot be sent; a built-in command
without a row requires the admin scope; a built-in tool without a row stops the first run. Scopes
are those of the published protocol if it has the method. `policy.decide` reads the table.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.model.rights import Rights

READ: Final = "operator.read"
WRITE: Final = "operator.write"
ADMIN: Final = "operator.admin"
APPROVALS: Final = "operator.approvals"
PAIRING: Final = "operator.pairing"

OPERATOR_SCOPES: Final = frozenset(
    {
        READ,
        WRITE,
        ADMIN,
        APPROVALS,
        PAIRING,
        "operator.questions",
        "operator.talk",
        "operator.talk.secrets",
    }
)


class Verb(StrEnum):
    """An effect that an actor requests."""

    CALL = "call"
    """Calling a method of the gateway."""
    RECEIVE = "receive"
    """Receiving an event of the gateway."""
    GIVE = "give"
    """Giving a slash command or a directive."""
    USE = "use"
    """Using a tool."""
    RECALL = "recall"
    """Reading the memory through its tools."""
    NOTE = "note"
    """Changing the memory through its tools."""
    READ = "read"
    """Reading a file through a tool."""
    WRITE = "write"
    """Writing a file through a tool."""
    OBEY = "obey"
    """Following the content of a file as the owner's instruction: in a prompt, at boot, as a
    hook."""


class Role(StrEnum):
    """Role of a connection: a person who operates the gateway, or a machine that serves it."""

    OPERATOR = "operator"
    NODE = "node"


class Need(Struct, frozen=True):
    """Role, scope and rights that a caller must have; None requires nothing."""

    role: Role | None
    scope: str | None
    rights: Rights = Rights.NONE
    """Rights that commands require; commands from platforms have no scopes."""


UNRESTRICTED: Final = Need(None, None)
NODES: Final = Need(Role.NODE, None)
READERS: Final = Need(Role.OPERATOR, READ)
WRITERS: Final = Need(Role.OPERATOR, WRITE)
ADMINS: Final = Need(Role.OPERATOR, ADMIN)
PAIRERS: Final = Need(Role.OPERATOR, PAIRING)
APPROVERS: Final = Need(Role.OPERATOR, APPROVALS)
QUESTIONERS: Final = Need(Role.OPERATOR, "operator.questions")

UNLISTED: Final = ADMINS
"""Need of a method that is not in the table: only admins learn that it does not exist."""

METHODS: Final[Mapping[str, Need]] = MappingProxyType(
    {
        "agent": WRITERS,
        "agent.identity.get": READERS,
        "agent.wait": WRITERS,
        "agents.list": READERS,
        "chat.abort": WRITERS,
        "chat.history": READERS,
        "chat.inject": ADMINS,
        "chat.metadata": READERS,
        "chat.retry": WRITERS,
        "chat.send": WRITERS,
        "commands.list": READERS,
        "chat.startup": READERS,
        "config.patch": ADMINS,
        "config.set": ADMINS,
        "health": READERS,
        "exec.approval.resolve": APPROVERS,
        "models.list": READERS,
        "prompt.show": READERS,
        "sessions.compact": ADMINS,
        "sessions.messages.subscribe": READERS,
        "sessions.messages.unsubscribe": READERS,
        "sessions.patch": WRITERS,
        "sessions.reset": ADMINS,
        "sessions.restore": ADMINS,
        "sessions.search": READERS,
        "sessions.subscribe": READERS,
        "sessions.taint.clear": ADMINS,
        "sessions.unsubscribe": READERS,
        "status": READERS,
        "system-presence": READERS,
    }
)
"""Needs of each method of the kernel; features register theirs."""

SETTINGS: Final = ADMINS
"""Need of the fields of `sessions.patch` that change the execution and the cost of runs."""

PATCH: Final = "sessions.patch"

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approve": "exec.approval.resolve",
        "commands": "commands.list",
        "compact": "sessions.compact",
        "config": "config.set",
        "context": "prompt.show",
        "debug": "config.patch",
        "help": "commands.list",
        "model": PATCH,
        "models": "models.list",
        "new": "sessions.reset",
        "queue": PATCH,
        "reasoning": PATCH,
        "recall": "sessions.search",
        "reset": "sessions.reset",
        "restart": "config.patch",
        "resume": "sessions.restore",
        "retry": "chat.retry",
        "send": PATCH,
        "skill": "chat.send",
        "status": "status",
        "stop": "chat.abort",
        "subagents": "chat.abort",
        "taint": "sessions.taint.clear",
        "think": PATCH,
        "usage": PATCH,
        "verbose": PATCH,
        "whoami": "status",
    }
)
"""Method that is equivalent to each built-in command or directive: a client that may not call the
method may not give the command."""


def command_scope(name: str) -> str:
    """Returns the scope that a client needs to give a built-in command; empty for no command."""
    method = COMMANDS.get(name)
    if method is None:
        return ""
    return (SETTINGS if method == PATCH else METHODS[method]).scope or ADMIN


def strongest(scopes: Iterable[str]) -> str:
    """Returns the least scope that includes all of `scopes`: reading, writing or admin."""
    required = frozenset(scopes)
    return next((scope for scope in (READ, WRITE) if required <= {READ, scope}), ADMIN)


EVENTS: Final[Mapping[str, Need]] = MappingProxyType(
    {
        "agent": READERS,
        "chat": READERS,
        "config.changed": READERS,
        "connect.challenge": UNRESTRICTED,
        "device.pair.requested": PAIRERS,
        "device.pair.resolved": PAIRERS,
        "health": READERS,
        "node.invoke.request": NODES,
        "node.pair.requested": PAIRERS,
        "node.pair.resolved": PAIRERS,
        "presence": READERS,
        "session.message": READERS,
        "sessions.changed": READERS,
        "shutdown": UNRESTRICTED,
        "tick": UNRESTRICTED,
    }
)
"""Needs for receiving each event of the kernel; features register theirs."""
