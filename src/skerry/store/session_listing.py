"""Lists sessions: which, how many, and those in which a word was said."""

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
    """Filter of sessions; fields left out exclude nothing."""

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
    """Names in the agent's scope that are left out, such as `global`."""
    without: frozenset[str] = frozenset()
    """Kinds of conversations that are left out, by the first word in the agent's scope: `cron`."""
    keys: frozenset[str] | None = None
    """Session keys to list."""
    pinned: bool | None = None
    spawned_by: str | None = None
    """Key of the conversation that started them as sub-agents."""
    person_wrote: bool = False
    """Lists only sessions in which a person wrote."""
    by_last_message: bool = False
    """The one in which a person spoke last comes first."""


_ARCHIVED: Final[Mapping[bool | None, str]] = MappingProxyType(
    {False: "current", True: "NOT current AND tail > 0", None: "(current OR tail > 0)"}
)
_BODY: Final = "(SELECT body FROM entry e WHERE e.session_id = session.session_id AND seq ="
_SHOWN_BODIES: Final = f"{_BODY} 1), {_BODY} 2), {_BODY} tail)"
"""Bodies of the first entries and the last: the person's first message is one of the first two, as
a notice may precede it."""
_UNLISTED: Final = "key <> 'agent:' || agent_id || ':' || ?"
_WITHOUT: Final = "key NOT LIKE 'agent:' || agent_id || ':' || ? || ':%'"
_ORDER: Final = ("updated_at DESC, key", "user_at DESC, updated_at DESC, key")
EVERY: Final = SessionFilter()
"""Every present session."""


def recent(
    reader: Reader, which: SessionFilter = EVERY, *, limit: int, offset: int = 0
) -> list[SessionEntry]:
    """Returns sessions, the latest used first; a `limit` of -1 returns all.

    A search reads every session's first and last message: O(n) of the sessions.
    """
    where, parameters = _conditions(which)
    order = _ORDER[which.by_last_message]
    if which.search:
        matching = list(_matching(reader, which, where, parameters))
        return matching[offset : None if limit < 0 else offset + limit]
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        f" ORDER BY {order} LIMIT ? OFFSET ?",
        (*parameters, limit if limit >= 0 else ALL, offset),
    )
    return [sessions.entry(row) for row in rows]


def count(reader: Reader, which: SessionFilter = EVERY) -> int:
    """Returns how many sessions there are."""
    where, parameters = _conditions(which)
    if which.search:
        return sum(1 for _ in _matching(reader, which, where, parameters))
    row = reader.one(f"SELECT count(*) FROM session WHERE {where}", parameters)  # noqa: S608 - constant text
    return int(row[0]) if row else 0


def _matching(
    reader: Reader, which: SessionFilter, where: str, parameters: tuple[object, ...]
) -> Iterator[SessionEntry]:
    """Gives the sessions that the search finds; Python folds case where SQLite only knows ASCII."""
    needle = which.search.casefold()
    rows = reader.all(
        f"SELECT {_SHOWN_BODIES}, {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        f" ORDER BY {_ORDER[which.by_last_message]}",
        parameters,
    )
    for first, second, last, *row in rows:
        session = sessions.entry(tuple(row))
        person_messages = [
            spoken for spoken in map(_read, (first, second)) if isinstance(spoken, UserMessage)
        ]
        excerpts = [
            sessions.text_of(spoken)
            for spoken in (*person_messages[:1], _read(last))
            if spoken is not None
        ]
        texts = (session.key, session.session_id, session.label, *excerpts)
        if any(needle in text.casefold() for text in texts):
            yield session


def _read(body: bytes | None) -> Message | None:
    try:
        return message.decode(body) if body else None
    except (TypeError, *UNREADABLE):
        return None  # whoever reads the transcript tells of it


def _conditions(which: SessionFilter) -> tuple[str, Row]:
    conditions_with_values: dict[str, tuple[object, ...]] = {_ARCHIVED[which.archived]: ()}
    one_value: dict[str, object] = {
        "agent_id = ?": which.agent,
        "label = ?": which.label,
        "updated_at >= ?": which.active_since or None,
        "pinned = ?": which.pinned,
        "spawned_by = ?": which.spawned_by,
    }
    conditions_with_values |= {
        condition: (value,) for condition, value in one_value.items() if value is not None
    }
    for column, among in (("agent_id", which.agents), ("key", which.keys)):
        if among is not None:
            conditions_with_values[f"{column} IN ({marks(among)})"] = tuple(sorted(among))
    if which.person_wrote:
        conditions_with_values["user_at > 0"] = ()
    conditions, values = (
        [*conditions_with_values],
        [value for bound in conditions_with_values.values() for value in bound],
    )
    for names, condition in ((which.unlisted, _UNLISTED), (which.without, _WITHOUT)):
        conditions += [condition] * len(names)
        values += sorted(names)
    return " AND ".join(conditions), tuple(values)
