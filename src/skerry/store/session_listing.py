"""Lists, counts and searches sessions."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.message import Message, UserMessage
from skerry.model.session import SessionEntry
from skerry.store import sessions
from skerry.store.unit import ALL, Reader, Row, marks


class SessionFilter(Struct, frozen=True):
    """Filter of sessions; a default value excludes nothing, except for `archived`."""

    agent: str | None = None
    agents: frozenset[str] | None = None
    """Agents whose sessions are listed."""
    label: str | None = None
    search: str = ""
    """Text in the key, the id, the label, the person's first message, or the last message; in any
    case."""
    active_since: int = 0
    archived: bool | None = False
    """True: archived sessions with content; None: these and the present ones."""
    unlisted: frozenset[str] = frozenset()
    """Excluded names in the agent's scope, such as `global`."""
    excluded_kinds: frozenset[str] = frozenset()
    """Excluded kinds of conversations, by the first word in the agent's scope, such as `cron`."""
    keys: frozenset[str] | None = None
    """Session keys to list."""
    pinned: bool | None = None
    spawned_by: str | None = None
    """Key of the conversation that started them as sub-agents."""
    person_wrote: bool = False
    """Lists only sessions in which a person wrote."""
    by_last_message: bool = False
    """Sorts by the person's last message, the latest first."""


_ARCHIVED: Final[Mapping[bool | None, str]] = MappingProxyType(
    {False: "current", True: "NOT current AND tail > 0", None: "(current OR tail > 0)"}
)
_BODY: Final = "(SELECT body FROM entry e WHERE e.session_id = session.session_id AND seq ="
_SHOWN_BODIES: Final = f"{_BODY} 1), {_BODY} 2), {_BODY} tail)"
"""Bodies of the first entries and the last: the person's first message is one of the first two, as
a notice may precede it."""
_UNLISTED: Final = "key <> 'agent:' || agent_id || ':' || ?"
_NOT_OF_KIND: Final = "key NOT LIKE 'agent:' || agent_id || ':' || ? || ':%'"
_ORDER: Final = ("updated_at DESC, key", "user_at DESC, updated_at DESC, key")
EVERY: Final = SessionFilter()
"""Every present session."""


def recent(
    reader: Reader, session_filter: SessionFilter = EVERY, *, limit: int, offset: int = 0
) -> list[SessionEntry]:
    """Returns sessions, the last used first; a `limit` of -1 returns all.

    A search reads the first and last messages of every session: O(number of sessions).
    """
    clause, parameters = _conditions(session_filter)
    order = _ORDER[session_filter.by_last_message]
    if session_filter.search:
        matching = list(_matching(reader, session_filter, clause, parameters))
        return matching[offset : None if limit < 0 else offset + limit]
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE {clause}"  # noqa: S608 - constant text
        f" ORDER BY {order} LIMIT ? OFFSET ?",
        (*parameters, limit if limit >= 0 else ALL, offset),
    )
    return [sessions.entry(row) for row in rows]


def count(reader: Reader, session_filter: SessionFilter = EVERY) -> int:
    """Returns the number of sessions that match the filter."""
    clause, parameters = _conditions(session_filter)
    if session_filter.search:
        return sum(1 for _ in _matching(reader, session_filter, clause, parameters))
    row = reader.one(f"SELECT count(*) FROM session WHERE {clause}", parameters)  # noqa: S608 - constant text
    return int(row[0]) if row else 0


def _matching(
    reader: Reader, session_filter: SessionFilter, clause: str, parameters: tuple[object, ...]
) -> Iterator[SessionEntry]:
    """Yields the sessions that match the search. Python folds case: SQLite folds only ASCII."""
    needle = session_filter.search.casefold()
    rows = reader.all(
        f"SELECT {_SHOWN_BODIES}, {sessions.COLUMNS} FROM session WHERE {clause}"  # noqa: S608 - constant text
        f" ORDER BY {_ORDER[session_filter.by_last_message]}",
        parameters,
    )
    for first, second, last, *row in rows:
        session = sessions.entry(tuple(row))
        person_messages = [
            entry_message
            for entry_message in map(_read, (first, second))
            if isinstance(entry_message, UserMessage)
        ]
        excerpts = [
            sessions.text_of(entry_message)
            for entry_message in (*person_messages[:1], _read(last))
            if entry_message is not None
        ]
        texts = (session.key, session.session_id, session.label, *excerpts)
        if any(needle in text.casefold() for text in texts):
            yield session


def _read(body: bytes | None) -> Message | None:
    try:
        return message.decode(body) if body else None
    except (TypeError, *UNREADABLE):
        return None  # reading the transcript reports it


def _conditions(session_filter: SessionFilter) -> tuple[str, Row]:
    conditions_with_values: dict[str, tuple[object, ...]] = {_ARCHIVED[session_filter.archived]: ()}
    one_value: dict[str, object] = {
        "agent_id = ?": session_filter.agent,
        "label = ?": session_filter.label,
        "updated_at >= ?": session_filter.active_since or None,
        "pinned = ?": session_filter.pinned,
        "spawned_by = ?": session_filter.spawned_by,
    }
    conditions_with_values |= {
        condition: (value,) for condition, value in one_value.items() if value is not None
    }
    for column, among in (("agent_id", session_filter.agents), ("key", session_filter.keys)):
        if among is not None:
            conditions_with_values[f"{column} IN ({marks(among)})"] = tuple(sorted(among))
    if session_filter.person_wrote:
        conditions_with_values["user_at > 0"] = ()
    conditions, values = (
        [*conditions_with_values],
        [value for bound in conditions_with_values.values() for value in bound],
    )
    for names, condition in (
        (session_filter.unlisted, _UNLISTED),
        (session_filter.excluded_kinds, _NOT_OF_KIND),
    ):
        conditions += [condition] * len(names)
        values += sorted(names)
    return " AND ".join(conditions), tuple(values)
