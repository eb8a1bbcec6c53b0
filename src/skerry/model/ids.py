"""Ids and session keys: parsed on arrival, with one printed form."""

import re
import unicodedata
from enum import StrEnum
from typing import Final, NewType, Self

from msgspec import Struct

from skerry.model.errors import InvalidSessionKeyError

AgentId = NewType("AgentId", str)
RunId = NewType("RunId", str)
SessionId = NewType("SessionId", str)
ChannelId = NewType("ChannelId", str)
AccountId = NewType("AccountId", str)

MAIN_AGENT: Final = AgentId("main")
MAX_KEY_LENGTH: Final = 512

_AGENT_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ALIASES: Final = {"dm": "direct"}
_SHARED_SCOPES: Final = frozenset({("global",), ("unknown",)})


class SessionKind(StrEnum):
    """Kind of the conversation of a session key."""

    MAIN = "main"
    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"
    CRON = "cron"
    HOOK = "hook"
    NODE = "node"
    SUBAGENT = "subagent"
    OTHER = "other"


def agent_id(text: str) -> AgentId:
    """Returns `text` as an agent id: lower case, `-` for invalid characters, at most 64 characters.

    An empty result becomes `main`.


    Source: openclaw-behaviour 2.1.
    """
    lowered = text.strip().lower()
    if _AGENT_ID.fullmatch(lowered):
        return AgentId(lowered)
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-_")[:64]
    return AgentId(cleaned) if cleaned else MAIN_AGENT


class SessionKey(Struct, frozen=True):
    """The stable name of a conversation: `agent:<agent>:<scope...>`.

    Keys are normalised by NFKC and case folding, so that different spellings do not make different
    conversations. `dm` is parsed as `direct`. Parsing a printed key returns the same key.
    """

    agent: AgentId
    scope: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join(("agent", self.agent, *self.scope))

    @classmethod
    def main(cls, agent: AgentId = MAIN_AGENT) -> Self:
        """Returns the key of the agent's main conversation."""
        return cls(agent, ("main",))

    @classmethod
    def parse(cls, text: str, agent: AgentId = MAIN_AGENT) -> Self:
        """Returns the key of `text`; a key without `agent:` belongs to `agent`.

        Accepts the store form (`agent:<id>:...`) and the request forms `""`, `main`,
        `cron:<job>`, `hook:<uuid>`, `node-<id>`, or any other name.

        Raises:
            InvalidSessionKeyError: too long, a control character, or `agent:` without id and scope.
        """
        if len(text) > MAX_KEY_LENGTH:
            raise InvalidSessionKeyError(text[:64] + "…", f"over {MAX_KEY_LENGTH} characters")
        folded = _folded(_folded(text)).strip()  # folding once is not stable for ß with an accent
        if any(unicodedata.category(char) in {"Cc", "Cf", "Cs"} for char in folded):
            raise InvalidSessionKeyError(text, "a control or invisible character")
        parts = tuple(part for part in folded.split(":") if part)
        if not parts:
            return cls.main(agent)
        if parts[0] != "agent":
            return cls(agent, _canonical(parts))
        if len(parts) < 3:  # noqa: PLR2004 - agent, id, at least one scope part
            raise InvalidSessionKeyError(text, "expected agent:<agent>:<name>")
        if not _AGENT_ID.fullmatch(parts[1]):
            raise InvalidSessionKeyError(text, f"{parts[1]!r} is not an agent id")
        return cls(AgentId(parts[1]), _canonical(parts[2:]))

    @property
    def is_owners(self) -> bool:
        """Returns whether only the owner has such a conversation.

        These are `main` and the conversations that clients of the gateway name, but not the shared
        one of `session.scope: "global"`.
        """
        return (
            self.kind in {SessionKind.MAIN, SessionKind.OTHER} and self.scope not in _SHARED_SCOPES
        )

    @property
    def kind(self) -> SessionKind:
        """Returns the kind of the key's conversation."""
        first = self.scope[0]
        if self.scope == ("main",):
            return SessionKind.MAIN
        if first in {"cron", "hook", "subagent"}:
            return SessionKind(first)
        if first.startswith("node-"):
            return SessionKind.NODE
        for part in self.scope[:3]:
            if part in {"direct", "group", "channel"}:
                return SessionKind(part)
        return SessionKind.OTHER


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _canonical(scope: tuple[str, ...]) -> tuple[str, ...]:
    """Normalises the peer kind at each position: first, after channel, after account."""
    for index, part in enumerate(scope[:3]):
        if part in _ALIASES and index + 1 < len(scope):
            return (*scope[:index], _ALIASES[part], *scope[index + 1 :])
        if part in {"direct", "group", "channel"}:
            break
    return scope
