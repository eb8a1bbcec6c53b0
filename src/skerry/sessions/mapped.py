"""Reads the session map of OpenClaw, and infers the conversations of archived sessions (pure).

The map has only the present session of each conversation. An archived session belongs to the
conversation whose next session began when it was archived.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.queue import CHOICES
from skerry.model.session import SessionSettings

NEAR_MS: Final = 300_000
"""Limit on the milliseconds from the end of a session to the first line of the next one."""
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)(?:\.(\d{1,6}))?Z?")
_MAX_LABEL: Final = 500
_MAX_TOKENS: Final = 1 << 50
_LEVELS: Final = {
    "thinkingLevel": ("off", "minimal", "low", "medium", "high", "xhigh"),
    "verboseLevel": ("off", "on", "full"),
    "reasoningLevel": ("off", "on", "stream"),
    "responseUsage": ("off", "on", "tokens", "full"),
    "sendPolicy": ("allow", "deny"),
    "queueDrop": ("old", "new", "summarize"),
    "queueMode": CHOICES,
}
_NUMBERS: Final = ("queueDebounceMs", "queueCap")
_READ_KEYS: Final = frozenset(
    {
        *_LEVELS,
        *_NUMBERS,
        "abortedLastRun",
        "chatType",
        "compactionCount",
        "contextTokens",
        "displayName",
        "inputTokens",
        "label",
        "memoryFlushAt",
        "memoryFlushCompactionCount",
        "model",
        "modelOverride",
        "modelProvider",
        "outputTokens",
        "providerOverride",
        "sessionFile",
        "sessionId",
        "skillsSnapshot",
        "systemPromptReport",
        "systemSent",
        "totalTokens",
        "totalTokensFresh",
        "updatedAt",
    }
)
"""Keys that are read or derived from the transcript; others are reported."""


@dataclass(frozen=True, slots=True)
class MappedSession:
    """One session of the map."""

    key: str
    label: str = ""
    settings: SessionSettings = field(default_factory=SessionSettings)
    tokens: tuple[int, int, int] = (0, 0, 0)
    """Numbers of input tokens, output tokens, and tokens in the context."""
    model: tuple[str, str] = ("", "")
    """Provider and model of the last answer."""
    ignored: tuple[str, ...] = ()
    """Keys that are not imported."""


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A session with the times of its first line and of its archiving."""

    session_id: str
    created_at: int
    archived_at: int | None


def rows(content: bytes) -> dict[str, MappedSession]:
    """Returns the sessions of the map by id; empty if it cannot be read."""
    try:
        decoded: Any = msgspec.json.decode(content)
    except UNREADABLE:
        return {}
    listed = decoded.items() if isinstance(decoded, dict) else ()
    return {
        entry["sessionId"]: row(key, entry)
        for key, entry in listed
        if isinstance(entry, dict) and isinstance(entry.get("sessionId"), str)
    }


def row(key: str, entry: Mapping[str, Any]) -> MappedSession:
    """Parses the map's entry of a conversation."""
    ignored = [name for name in entry if name not in _READ_KEYS]
    settings_of: dict[str, Any] = {}
    for name, words in _LEVELS.items():
        if name in entry and entry[name] in words:
            settings_of[name] = entry[name]
        elif entry.get(name):
            ignored.append(name)
    settings_of |= {name: entry[name] for name in _NUMBERS if _number(entry.get(name))}
    override = _text(entry, "modelOverride")
    if override:
        provider = _text(entry, "providerOverride") or _text(entry, "modelProvider")
        settings_of["model"] = f"{provider}/{override}" if provider else override
    try:
        settings = msgspec.convert(settings_of, SessionSettings)
    except msgspec.ValidationError:
        settings, ignored = SessionSettings(), [*ignored, *settings_of]
    label = _text(entry, "label") or _text(entry, "displayName")
    numbers = [_number(entry.get(name)) for name in ("inputTokens", "outputTokens", "totalTokens")]
    return MappedSession(
        key,
        label[:_MAX_LABEL],
        settings,
        (numbers[0], numbers[1], numbers[2]),
        (_text(entry, "modelProvider"), _text(entry, "model")),
        tuple(ignored),
    )


def stamp(name: str) -> int | None:
    """Returns the time in the name of an archived file, in ms; None without one."""
    if (match := _STAMP.search(name)) is None:
        return None
    day, hour, minute, second, fraction = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp() * 1000) + int((fraction or "0").ljust(3, "0")[:3])


def keys(begun: Sequence[StartedSession], mapped: Mapping[str, MappedSession]) -> dict[str, str]:
    """Returns the session keys by session id, as far as they are known or can be inferred.

    If the map has only one conversation of a person, all other sessions are assigned to it.
    """
    keys_by_id = {
        session.session_id: mapped[session.session_id].key
        for session in begun
        if session.session_id in mapped
    }
    archived = [session for session in begun if session.archived_at is not None]
    for session in sorted(archived, key=lambda session: session.archived_at or 0, reverse=True):
        near = dict(_near(session, begun, keys_by_id))
        if session.session_id not in keys_by_id and len(set(near.values())) == 1:
            keys_by_id[session.session_id] = next(iter(near.values()))
    person_keys = {row.key for row in mapped.values() if _is_a_persons(row.key)}
    for session in begun:
        if len(person_keys) == 1 and session.session_id not in keys_by_id:
            keys_by_id[session.session_id] = next(iter(person_keys))
    return keys_by_id


def _near(
    session: StartedSession, begun: Sequence[StartedSession], keys_by_id: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields (session id, key) of the sessions that began when this one was archived."""
    for candidate in begun:
        distance = abs(candidate.created_at - (session.archived_at or 0))
        if candidate is not session and candidate.session_id in keys_by_id and distance <= NEAR_MS:
            yield candidate.session_id, keys_by_id[candidate.session_id]


def _is_a_persons(key: str) -> bool:
    return not {"cron", "hook", "subagent"} & set(key.split(":"))


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS:
        return value
    return 0
