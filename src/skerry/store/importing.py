"""Takes a session from elsewhere in, once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import Message, UserMessage
from skerry.model.session import Archived
from skerry.store import sessions
from skerry.store.unit import Unit


class Taken(StrEnum):
    """What became of a session that was to be imported."""

    PRESENT = "imported"
    ARCHIVED = "imported as an earlier session"
    """Its conversation has a present session already."""
    KNOWN = "already there"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A session that is to be taken in."""

    key: SessionKey
    """The conversation that it belongs to."""
    session_id: SessionId
    """By which it is known when it is imported again."""
    created_at: int
    messages: Sequence[tuple[int, Message]]
    """In order, each with the time of its entry in milliseconds."""
    archived: Archived | None = None
    """As what it was archived; None where it is to be the present one, if there is none yet."""


def take(unit: Unit, incoming: Incoming, now: int) -> Taken:
    """Write the session with its messages; one that is there stays as it is.

    One that is archived is kept from `now` on.
    """
    key, session_id = incoming.key, incoming.session_id
    if sessions.get(unit, session_id) is not None:
        return Taken.KNOWN
    archived = incoming.archived or (Archived.RESET if sessions.present(unit, key) else None)
    sessions.begin(unit, key, session_id, incoming.created_at, current=archived is None)
    tail = 0
    for at, group in groupby(incoming.messages, key=lambda one: one[0]):
        said = [one for _, one in group]
        heard = at if any(isinstance(one, UserMessage) for one in said) else 0
        tail = sessions.append(unit, session_id, tail, "", said, at, heard=heard)
    if archived is None:
        return Taken.PRESENT
    unit.execute(
        "UPDATE session SET archived = ?, archived_at = ? WHERE session_id = ?",
        (archived, now, session_id),
    )
    return Taken.ARCHIVED
