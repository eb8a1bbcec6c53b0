"""Reads conversations for the index of the memory."""

import logging

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.memory import TrackedConversation, Utterance
from skerry.model.message import COMMAND, NOTICE, AssistantMessage, UserMessage
from skerry.model.session import Archived
from skerry.store.unit import Reader

logger = logging.getLogger(__name__)


def conversations(reader: Reader, agent: str, since: int) -> list[TrackedConversation]:
    """Returns the agent's sessions with entries, updated since then, except deleted ones."""
    rows = reader.all(
        "SELECT session.session_id, key, tail, coalesce(size, 0), updated_at FROM session"
        " LEFT JOIN mirror USING (session_id)"
        " WHERE agent_id = ? AND updated_at >= ? AND tail > 0"
        " AND (archived IS NULL OR archived <> ?)"
        " ORDER BY updated_at, session.session_id",
        (agent, since, Archived.DELETED),
    )
    return [TrackedConversation(*row) for row in rows]


def of_session(reader: Reader, session_id: str, after: int = 0) -> list[Utterance]:
    """Returns the texts of person and assistant after entry `after`, in order.

    Tool calls and results, summaries, commands and notices are excluded.
    """
    rows = reader.all(
        "SELECT seq, at, body FROM entry WHERE session_id = ? AND seq > ? AND kind IS NULL"
        " ORDER BY seq",
        (session_id, after),
    )
    return [
        utterance for seq, at, body in rows if (utterance := _utterance(seq, at, body)) is not None
    ]


def _utterance(seq: int, at: int, body: bytes) -> Utterance | None:
    try:
        entry = message.decode(body)
    except (TypeError, *UNREADABLE):
        logger.exception("entry %d cannot be read and is not indexed for the memory", seq)
        return None
    match entry:
        case UserMessage() if entry.text and not entry.text.startswith("/"):
            return Utterance(by_user=True, text=entry.text, at=at, seq=seq)
        case AssistantMessage() if entry.text and (entry.provider, entry.model) not in {
            COMMAND,
            NOTICE,
        }:
            return Utterance(by_user=False, text=entry.text, at=at, seq=seq)
        case _:
            return None
