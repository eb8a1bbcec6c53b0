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


class Wanted(Struct, frozen=True):
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
    heard: bool = False
    """Lists only sessions in which a person wrote."""
    by_heard: bool = False
    """The one in which a person spoke last comes first."""


_ARCHIVED: Final[Mapping[bool | None, str]] = MappingProxyType(
    {False: "current", True: "NOT current AND tail > 0", None: "(current OR tail > 0)"}
)
_BODY: Final = "(SELECT body FROM entry e WHERE e.session_id = session.session_id AND seq ="
_SAID: Final = f"{_BODY} 1), {_BODY} 2), {_BODY} tail)"
"""Bodies of the first entries and the last: the person's first message is one of the first two, as
a notice may precede it."""
_UNLISTED: Final = "key <> 'agent:' || agent_id || ':' || ?"
_WITHOUT: Final = "key NOT LIKE 'agent:' || agent_id || ':' || ? || ':%'"
_ORDER: Final = ("updated_at DESC, key", "user_at DESC, updated_at DESC, key")
EVERY: Final = Wanted()
"""Every present session."""


def recent(
    reader: Reader, wanted: Wanted = EVERY, *, limit: int, offset: int = 0
) -> list[SessionEntry]:
    """Returns sessions, the latest used first; a `limit` of -1 returns all.

    A search reads every session's first and last message: O(n) of the sessions.
    """
    where, parameters = _conditions(wanted)
    order = _ORDER[wanted.by_heard]
    if wanted.search:
        found = list(_found(reader, wanted, where, parameters))
        return found[offset : None if limit < 0 else offset + limit]
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        f" ORDER BY {order} LIMIT ? OFFSET ?",
        (*parameters, limit if limit >= 0 else ALL, offset),
    )
    return [sessions.entry(row) for row in rows]


def count(reader: Reader, wanted: Wanted = EVERY) -> int:
    """Returns how many sessions there are."""
    where, parameters = _conditions(wanted)
    if wanted.search:
        return sum(1 for _ in _found(reader, wanted, where, parameters))
    row = reader.one(f"SELECT count(*) FROM session WHERE {where}", parameters)  # noqa: S608 - constant text
    return int(row[0]) if row else 0


def _found(
    reader: Reader, wanted: Wanted, where: str, parameters: tuple[object, ...]
) -> Iterator[SessionEntry]:
    """Gives the sessions that the search finds; Python folds case where SQLite only knows ASCII."""
    needle = wanted.search.casefold()
    rows = reader.all(
        f"SELECT {_SAID}, {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        f" ORDER BY {_ORDER[wanted.by_heard]}",
        parameters,
    )
    for first, second, last, *row in rows:
        one = sessions.entry(tuple(row))
        heard = [said for said in map(_read, (first, second)) if isinstance(said, UserMessage)]
        said = [sessions.text_of(said) for said in (*heard[:1], _read(last)) if said is not None]
        texts = (one.key, one.session_id, one.label, *said)
        if any(needle in text.casefold() for text in texts):
            yield one


def _read(body: bytes | None) -> Message | None:
    try:
        return message.decode(body) if body else None
    except (TypeError, *UNREADABLE):
        return None  # whoever reads the transcript tells of it


def _conditions(wanted: Wanted) -> tuple[str, Row]:
    found: dict[str, tuple[object, ...]] = {_ARCHIVED[wanted.archived]: ()}
    one_value: dict[str, object] = {
        "agent_id = ?": wanted.agent,
        "label = ?": wanted.label,
        "updated_at >= ?": wanted.active_since or None,
        "pinned = ?": wanted.pinned,
    }
    found |= {condition: (one,) for condition, one in one_value.items() if one is not None}
    for column, among in (("agent_id", wanted.agents), ("key", wanted.keys)):
        if among is not None:
            found[f"{column} IN ({marks(among)})"] = tuple(sorted(among))
    if wanted.heard:
        found["user_at > 0"] = ()
    conditions, values = [*found], [value for one in found.values() for value in one]
    for names, condition in ((wanted.unlisted, _UNLISTED), (wanted.without, _WITHOUT)):
        conditions += [condition] * len(names)
        values += sorted(names)
    return " AND ".join(conditions), tuple(values)
