"""Lists sessions: which, how many, and those in which a word was said."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.model import message
from skerry.model.session import SessionEntry
from skerry.store import sessions
from skerry.store.unit import Reader, Row


class Wanted(Struct, frozen=True):
    """Which sessions; what is not said excludes nothing."""

    agent: str | None = None
    agents: frozenset[str] | None = None
    """Only sessions of these agents."""
    label: str | None = None
    search: str = ""
    """In the key, the id, the label, what the person first said, the last message; in any case."""
    active_since: int = 0
    archived: bool | None = False
    """True: archived sessions with content; None: these and the present ones."""
    unlisted: frozenset[str] = frozenset()
    """Names in the agent's scope that are left out, such as `global`."""


_ARCHIVED: Final[Mapping[bool | None, str]] = MappingProxyType(
    {False: "current", True: "NOT current AND tail > 0", None: "(current OR tail > 0)"}
)
_FIRST: Final = (  # a notice may stand before it
    "(SELECT body FROM entry e WHERE e.session_id = session.session_id AND seq <= 2"
    " AND json_extract(CAST(body AS TEXT), '$.role') = 'user' ORDER BY seq LIMIT 1)"
)
_LAST: Final = "(SELECT body FROM entry e WHERE e.session_id = session.session_id AND seq = tail)"
EVERY: Final = Wanted()
"""Every present session."""


def recent(
    reader: Reader, wanted: Wanted = EVERY, *, limit: int, offset: int = 0
) -> list[SessionEntry]:
    """Return sessions, the latest used first; a `limit` of -1 returns all.

    A search reads every session's first and last message: O(n) of the sessions.
    """
    where, parameters = _conditions(wanted)
    if wanted.search:
        found = list(_found(reader, wanted, where, parameters))
        return found[offset : None if limit < 0 else offset + limit]
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        " ORDER BY updated_at DESC, key LIMIT ? OFFSET ?",
        (*parameters, limit, offset),
    )
    return [sessions.entry(row) for row in rows]


def count(reader: Reader, wanted: Wanted = EVERY) -> int:
    """Return how many sessions there are."""
    where, parameters = _conditions(wanted)
    if wanted.search:
        return sum(1 for _ in _found(reader, wanted, where, parameters))
    row = reader.one(f"SELECT count(*) FROM session WHERE {where}", parameters)  # noqa: S608 - constant text
    return int(row[0]) if row else 0


def _found(
    reader: Reader, wanted: Wanted, where: str, parameters: tuple[object, ...]
) -> Iterator[SessionEntry]:
    """Give the sessions that the search finds; Python folds case where SQLite only knows ASCII."""
    needle = wanted.search.casefold()
    rows = reader.all(
        f"SELECT {_FIRST}, {_LAST}, {sessions.COLUMNS} FROM session WHERE {where}"  # noqa: S608 - constant text
        " ORDER BY updated_at DESC, key",
        parameters,
    )
    for first, last, *row in rows:
        one = sessions.entry(tuple(row))
        said = (_text(body) for body in (first, last))
        texts = (one.key, one.session_id, one.label, *said)
        if any(needle in text.casefold() for text in texts):
            yield one


def _text(body: bytes | None) -> str:
    return sessions.text_of(message.decode(body)) if body else ""


def _conditions(wanted: Wanted) -> tuple[str, Row]:
    conditions = [_ARCHIVED[wanted.archived]]
    parameters: list[object] = []

    def add(condition: str, *values: object) -> None:
        conditions.append(condition)
        parameters.extend(values)

    if wanted.agent is not None:
        add("agent_id = ?", wanted.agent)
    if wanted.agents is not None:
        places = ", ".join("?" * len(wanted.agents))
        add(f"agent_id IN ({places})", *sorted(wanted.agents))
    if wanted.label is not None:
        add("label = ?", wanted.label)
    if wanted.active_since:
        add("updated_at >= ?", wanted.active_since)
    for name in sorted(wanted.unlisted):
        add("key <> 'agent:' || agent_id || ':' || ?", name)
    return " AND ".join(conditions), tuple(parameters)
