"""Sessions and the entries of their transcripts."""

from collections.abc import Sequence

import msgspec

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.errors import StaleTailError
from skerry.model.ids import AgentId, SessionId, SessionKey, SessionKind
from skerry.model.message import COMPACTION, AssistantMessage, Message, Usage, UserMessage
from skerry.model.run import ConversationChangedError, ExpectedState
from skerry.model.session import Archived, SessionEntry, SessionSettings, TranscriptEntry
from skerry.store import message_counts, unreadable_entries
from skerry.store.unit import ALL, Reader, Unit

COLUMNS = (
    "key, session_id, agent_id, chat_type, created_at, updated_at, tail, input_tokens,"
    " output_tokens, total_tokens, aborted_last_run, provider, model, label, user_at, archived,"
    " archived_at, settings, compactions, flushed, flushed_at"
)
TITLE_LENGTH = 60
_BEGINNING = 6
"""Number of first entries that are searched for the title, after notices and commands."""
_settings = msgspec.json.Decoder(SessionSettings)


def ensure(unit: Unit, key: SessionKey, new_id: SessionId, now: int) -> tuple[SessionId, int]:
    """Returns id and tail of the key's present session; begins it as `new_id` if missing."""
    row = present(unit, key)
    if row is not None:
        return row[0], row[1]
    begin(unit, key, new_id, now)
    return new_id, 0


def present(reader: Reader, key: SessionKey) -> tuple[SessionId, int, int] | None:
    """Returns id, tail and time of the last person's message of the key's present session."""
    row = reader.one(
        "SELECT session_id, tail, user_at FROM session WHERE key = ? AND current", (str(key),)
    )
    return (SessionId(row[0]), int(row[1]), int(row[2])) if row is not None else None


def begin(
    unit: Unit, key: SessionKey, new_id: SessionId, now: int, *, current: bool = True
) -> None:
    """Adds the session `new_id` to the key; the key must have no present session if `current`."""
    kind = key.kind
    unit.execute(
        "INSERT INTO session"
        " (session_id, key, agent_id, chat_type, created_at, updated_at, current)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            new_id,
            str(key),
            key.agent,
            "group" if kind in {SessionKind.GROUP, SessionKind.CHANNEL} else "direct",
            now,
            now,
            current,
        ),
    )


def append(  # noqa: PLR0913 - one statement writes them all
    unit: Unit,
    session_id: SessionId,
    tail: int,
    run_id: str,
    messages: Sequence[Message],
    now: int,
    *,
    person_wrote_at: int = 0,
) -> int:
    """Adds `messages` after entry `tail`; returns the new tail.

    `person_wrote_at`: time of a person's message among them, which renews the session; 0 for none.

    Raises:
        StaleTailError: the transcript has other entries by now; the unit writes nothing.
    """
    new_tail = tail + len(messages)
    changed = unit.execute(
        "UPDATE session SET tail = ?,"
        " updated_at = CASE WHEN updated_at < ? THEN ? ELSE updated_at END,"
        " user_at = CASE WHEN user_at < ? THEN ? ELSE user_at END"
        " WHERE session_id = ? AND tail = ?",
        (new_tail, now, now, person_wrote_at, person_wrote_at, session_id, tail),
    )
    if changed != 1:
        row = unit.one("SELECT tail FROM session WHERE session_id = ?", (session_id,))
        raise StaleTailError(session_id, expected=tail, actual=row[0] if row else -1)
    unit.executemany(
        "INSERT INTO entry (session_id, seq, parent, at, run_id, body) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (session_id, seq, seq - 1, now, run_id, message.encode(message_))
            for seq, message_ in enumerate(messages, tail + 1)
        ],
    )
    message_counts.note(unit, session_id, now, messages)
    unit.touched.append(session_id)
    return new_tail


def note_run(
    unit: Unit, session_id: SessionId, usage: Usage, provider: str, model: str, *, aborted: bool
) -> None:
    """Adds a run's tokens to the session, and stores the model if one was called."""
    unit.execute(
        "UPDATE session SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
        " total_tokens = CASE WHEN ? > 0 THEN ? ELSE total_tokens END,"
        " aborted_last_run = ?, provider = coalesce(nullif(?, ''), provider),"
        " model = coalesce(nullif(?, ''), model) WHERE session_id = ?",
        (
            usage.input,
            usage.output,
            usage.total_tokens,
            usage.total_tokens,
            aborted,
            provider,
            model,
            session_id,
        ),
    )


def find(reader: Reader, key: str) -> SessionEntry | None:
    """Returns the key's present session."""
    row = reader.one(f"SELECT {COLUMNS} FROM session WHERE key = ? AND current", (key,))  # noqa: S608 - constant columns
    return entry(row) if row else None


def get(reader: Reader, session_id: str) -> SessionEntry | None:
    """Returns the session, present or archived."""
    row = reader.one(f"SELECT {COLUMNS} FROM session WHERE session_id = ?", (session_id,))  # noqa: S608 - constant columns
    return entry(row) if row else None


def expect(reader: Reader, key: SessionKey, expected: ExpectedState) -> None:
    """Checks that the conversation is in the state that a client has seen.

    An unknown session id is accepted: the client created it for a new conversation.

    Raises:
        ConversationChangedError: the state differs.
    """
    present = find(reader, str(key))
    named = get(reader, expected.session_id) if expected.session_id else present
    if named is not None and named.key != str(key):
        difference = f"session {named.session_id} belongs to {named.key}"
        raise ConversationChangedError(str(key), difference)
    if expected.present and (present is None or named is None or named.archived is not None):
        difference = f"session {expected.session_id} is no longer the present one"
        raise ConversationChangedError(str(key), difference)
    if expected.leaf is None or (named is not None and named.archived is not None):
        return
    last = present.tail if present is not None else 0
    if not (last == expected.leaf or (expected.session_id and expected.leaf <= last)):
        raise ConversationChangedError(str(key), "it has new entries since it was read")


def settings(reader: Reader, session_id: str) -> SessionSettings:
    """Returns the settings of the session."""
    row = reader.one("SELECT settings FROM session WHERE session_id = ?", (session_id,))
    return _settings.decode(row[0]) if row else SessionSettings()


def tail(reader: Reader, session_id: str) -> int:
    """Returns the number of the session's last entry; 0 without entries."""
    row = reader.one("SELECT tail FROM session WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def last_message(reader: Reader, session_id: str) -> int | None:
    """Returns the number of the last message of a present session; None for an archived one.

    A summary may follow it.
    """
    row = reader.one(
        "SELECT coalesce((SELECT max(seq) FROM entry WHERE entry.session_id = session.session_id"
        " AND seq > tail - 2 AND kind IS NULL), tail)"
        " FROM session WHERE session_id = ? AND current",
        (session_id,),
    )
    return int(row[0]) if row else None


def entries(
    reader: Reader, session_id: str, *, limit: int, before: int | None = None, after: int = 0
) -> list[TranscriptEntry]:
    """Returns the last `limit` entries between `after` and `before` (exclusive), oldest first.

    A `limit` of -1 returns all. Unreadable entries are skipped and passed to `Reader.broken`.
    """
    rows = unreadable_entries.rows(
        reader,
        session_id,
        "seq, parent, at, run_id, body",
        "seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        (after, before if before is not None else ALL, limit if limit >= 0 else ALL),
    )
    decoded: list[TranscriptEntry] = []
    for seq, parent, at, run_id, body in reversed(rows):
        try:
            decoded.append(TranscriptEntry(seq, parent, at, run_id, message.decode(body)))
        except (TypeError, *UNREADABLE) as error:
            reader.broken(session_id, seq, str(error))
    return decoded


def bodies_after(
    reader: Reader, session_id: str, seq: int, size: int
) -> list[tuple[int, int, int, str | None, bytes]]:
    """Returns (seq, parent, at, kind, body) of entries after `seq`, in order, up to `size` bytes.

    Returns at least one entry if there is any, even if it is larger than `size`.
    """
    last = seq
    for number, length in reader.all(
        "SELECT seq, length(body) FROM entry WHERE session_id = ? AND seq > ?"
        " ORDER BY seq LIMIT 1000",
        (session_id, seq),
    ):
        size -= length
        if size < 0 and last > seq:
            break
        last = number
    return unreadable_entries.rows(
        reader,
        session_id,
        "seq, parent, at, kind, body",
        "seq > ? AND seq <= ? ORDER BY seq",
        (seq, last),
    )


def times(reader: Reader, session_id: str, after: int = 0) -> list[tuple[int, int]]:
    """Returns number and time of the entries after number `after`."""
    return reader.all(
        "SELECT seq, at FROM entry WHERE session_id = ? AND seq > ?", (session_id, after)
    )


def title(reader: Reader, session_id: str) -> str:
    """Returns the beginning of the person's first message; a command only if there is no other."""
    first_entries = entries(reader, session_id, limit=_BEGINNING, before=_BEGINNING + 1)
    texts = [
        _short(first_entry.message)
        for first_entry in first_entries
        if isinstance(first_entry.message, UserMessage)
    ]
    return next((text for text in texts if not text.startswith("/")), texts[0] if texts else "")


def preview(reader: Reader, session_id: str) -> str:
    """Returns the beginning of the last message."""
    for last in reversed(entries(reader, session_id, limit=2)):
        if not is_compaction(last.message):
            return _short(last.message)
    return ""


def is_compaction(entry_message: Message) -> bool:
    """Returns whether the message is a summary that replaces the messages before it."""
    if not isinstance(entry_message, AssistantMessage):
        return False
    return (entry_message.provider, entry_message.model) == COMPACTION


def text_of(entry_message: Message) -> str:
    """Returns the text of the message in one line."""
    return " ".join("".join(getattr(block, "text", "") for block in entry_message.content).split())


def entry(row: tuple[object, ...]) -> SessionEntry:
    """Returns the session in a row of `COLUMNS`."""
    key, session_id, agent_id, *columns, archived, archived_at, encoded, count, flushed, at = row
    columns += [
        Archived(str(archived)) if archived else None,
        archived_at,
        _settings.decode(encoded),  # type: ignore[arg-type]  # the column holds JSON
        count,
        flushed,
        at,
    ]
    return SessionEntry(str(key), SessionId(str(session_id)), AgentId(str(agent_id)), *columns)  # type: ignore[arg-type]  # columns in the order of the fields


def _short(entry_message: Message) -> str:
    asked = entry_message.asked if isinstance(entry_message, UserMessage) else ""
    text = " ".join(asked.split()) or text_of(entry_message)
    return text if len(text) <= TITLE_LENGTH else f"{text[: TITLE_LENGTH - 1].rstrip()}…"
