"""Writes an imported session into the store, once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import CompactionMessage, Message, UserMessage
from skerry.model.session import Archived, SessionSettings
from skerry.store import archive, compactions, sessions
from skerry.store.unit import Unit


class ImportOutcome(StrEnum):
    """Result of the import of one session."""

    PRESENT = "imported"
    ARCHIVED = "imported as an earlier session"
    """Archived, because its conversation already has a present session."""
    ALREADY_IMPORTED = "already there"


@dataclass(frozen=True, slots=True)
class IncomingSession:
    """A session to import."""

    key: SessionKey
    """Key of its conversation."""
    session_id: SessionId
    """Id by which a repeated import is recognised."""
    created_at: int
    messages: Sequence[tuple[int, Message]]
    """(time in ms, message) of each entry, in order."""
    archived: Archived | None = None
    """Reason of its archiving; None to make it the present session unless there is one."""
    label: str = ""
    settings: SessionSettings = field(default_factory=SessionSettings)
    tokens: tuple[int, int, int] = (0, 0, 0)
    """Numbers of input tokens, output tokens, and tokens in the context."""
    model: tuple[str, str] = ("", "")
    """Provider and model of the last answer."""


def take(unit: Unit, incoming: IncomingSession, now: int) -> ImportOutcome:
    """Writes the session with its messages; a session that already exists is not changed.

    The retention of an archived session begins at `now`.
    """
    key, session_id = incoming.key, incoming.session_id
    if sessions.get(unit, session_id) is not None:
        return ImportOutcome.ALREADY_IMPORTED
    archived = incoming.archived or (Archived.RESET if sessions.present(unit, key) else None)
    sessions.begin(unit, key, session_id, incoming.created_at, current=archived is None)
    _write(unit, incoming)
    archive.change(unit, session_id, label=incoming.label, settings=incoming.settings)
    unit.execute(
        "UPDATE session SET input_tokens = ?, output_tokens = ?,"
        " total_tokens = coalesce(nullif(?, 0), total_tokens), provider = ?, model = ?"
        " WHERE session_id = ?",
        (*incoming.tokens, *incoming.model, session_id),
    )
    if archived is None:
        return ImportOutcome.PRESENT
    unit.execute(
        "UPDATE session SET archived = ?, archived_at = ? WHERE session_id = ?",
        (archived, now, session_id),
    )
    return ImportOutcome.ARCHIVED


def _write(unit: Unit, incoming: IncomingSession) -> None:
    """Writes the messages: those with the same time together, each summary separately."""
    tail = 0
    moments = groupby(incoming.messages, key=lambda timed: (timed[0], _is_summary(timed[1])))
    for (at, is_summary), group in moments:
        messages = [message for _, message in group]
        if is_summary:
            for message in messages:
                assert isinstance(message, CompactionMessage)  # noqa: S101 - by `_is_summary`
                tail = compactions.add(unit, incoming.session_id, tail, message, at, 0)
            continue
        person_wrote_at = at if any(isinstance(message, UserMessage) for message in messages) else 0
        tail = sessions.append(
            unit, incoming.session_id, tail, "", messages, at, person_wrote_at=person_wrote_at
        )


def _is_summary(message: Message) -> bool:
    return isinstance(message, CompactionMessage)
