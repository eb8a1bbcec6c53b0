"""Shows why a conversation is tainted, and clears the taint for the owner."""

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.model.ids import SessionId
from skerry.model.message import AssistantMessage, Message, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.session import entry_id
from skerry.runtime.conversation import foreign
from skerry.sessions.compaction_cut import model_entries, with_all_results
from skerry.sessions.summary import summary_message
from skerry.store import Reader, Unit, archive, audit, compactions, sessions

MAX_SOURCES: Final = 50
"""Limit on the shown sources; the last ones are shown."""
_CALL_CHARS: Final = 200


class TaintSource(Struct, frozen=True):
    """A text in the conversation that is not its owner's."""

    seq: int
    """Number of its entry; 0 for a summary."""
    at: int
    """Milliseconds since 1970."""
    origin: Origin
    tool: str
    """Name of the tool for a tool result; empty for a message."""
    call: str
    """Arguments of the call as JSON, cut after 200 characters; empty for a message."""

    def as_json(self) -> dict[str, Any]:
        """Returns the published fields."""
        return {
            "id": entry_id(self.seq) if self.seq else None,
            "at": self.at,
            "origin": self.origin.value,
            "tool": self.tool or None,
            "call": self.call or None,
        }


class Taint(Struct, frozen=True):
    """The stored taint of a conversation."""

    session_id: SessionId
    origins: frozenset[Origin]
    sources: tuple[TaintSource, ...]
    """At most `MAX_SOURCES`, the oldest first."""
    through: int
    """Number of the last entry that was examined."""
    cleared: int
    """Number of the last entry that the owner cleared; 0 for none."""

    def as_json(self) -> dict[str, Any]:
        """Returns the published fields."""
        return {
            "sessionId": self.session_id,
            "tainted": bool(self.origins),
            "origins": sorted(self.origins),
            "sources": [source.as_json() for source in self.sources],
            "through": self.through,
            "clearedThrough": self.cleared,
        }


def look(reader: Reader, key: str) -> Taint | None:
    """Returns the taint of the present session of a key; None if there is no session."""
    session = sessions.find(reader, key)
    if session is None:
        return None
    cleared = session.settings.taint_cleared or 0
    state = compactions.state(reader, session.session_id)
    after = state.last.first_kept - 1 if state.last else 0
    entries = sessions.entries(reader, session.session_id, limit=-1, after=after)
    numbered: list[tuple[int, Message]] = []
    if state.last is not None and state.seq > cleared:
        numbered.append((0, summary_message(state.last)))
    numbered += model_entries(with_all_results([(entry.seq, entry.message) for entry in entries]))
    sources = _sources(numbered)
    if state.seq <= cleared:  # a later summary may repeat both cleared and uncleared text
        sources = [source for source in sources if source.seq > cleared]
    origins = frozenset(source.origin for source in sources)
    last = tuple(sources[-MAX_SOURCES:])
    return Taint(session.session_id, origins, last, session.tail, cleared)


def _sources(numbered: list[tuple[int, Message]]) -> list[TaintSource]:
    calls: dict[str, str] = {}
    sources: list[TaintSource] = []
    for number, message in numbered:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                calls[call.id] = msgspec.json.encode(call.arguments).decode()[:_CALL_CHARS]
        origin = foreign(message)
        if origin is None:
            continue
        tool, call_text = "", ""
        if isinstance(message, ToolResultMessage):
            tool, call_text = message.tool_name, calls.get(message.tool_call_id, "")
        sources.append(TaintSource(number, message.timestamp, origin, tool, call_text))
    return sources


def clear(unit: Unit, key: str, now: int, by: str, through: int | None = None) -> Taint | None:
    """Clears the taint of the present session of a key; returns the taint before.

    The texts stay in their fences. Later text of others taints the conversation again.

    Args:
        unit: The unit, which also writes the entry `taint.cleared` of the audit log.
        key: Key of the conversation.
        now: Milliseconds since 1970.
        by: The person or client that cleared it.
        through: Number of the last entry that the owner has seen; None means the last one.
    """
    before = look(unit, key)
    session = sessions.find(unit, key)
    if before is None or session is None or not before.origins:
        return before
    last = before.through if through is None else min(through, before.through)
    if last <= before.cleared:
        return before
    settings = replace(session.settings, taint_cleared=last)
    archive.change(unit, session.session_id, label=session.label, settings=settings)
    facts = {
        "sessionKey": key,
        "sessionId": session.session_id,
        "through": last,
        "origins": sorted(before.origins),
        "by": by,
    }
    audit.append(unit, now, "taint.cleared", facts)
    return before
