"""System prompt parts that each session keeps from its start; a shared text is stored once.

A note is text that was inserted later, before the message with its number.
"""

from collections.abc import Mapping
from typing import Final

from skerry.store.unit import Reader, Unit

_OF: Final = "session_id = ? AND audience = ?"


def find(reader: Reader, session_id: str, audience: str) -> tuple[bytes, dict[str, str]] | None:
    """Returns the stored parts of a session for an audience, and the texts by digest."""
    row = reader.one(f"SELECT body FROM frozen WHERE {_OF}", (session_id, audience))  # noqa: S608 - constant
    if row is None:
        return None
    texts = reader.all(
        f"SELECT digest, text FROM frozen_part JOIN frozen_text USING (digest) WHERE {_OF}",  # noqa: S608 - constant
        (session_id, audience),
    )
    return row[0], dict(texts)


def keep(unit: Unit, session_id: str, audience: str, body: bytes, texts: Mapping[str, str]) -> None:
    """Replaces the stored parts; stores nothing for a session that was archived meanwhile."""
    current = unit.one("SELECT 1 FROM session WHERE session_id = ? AND current", (session_id,))
    _drop(unit, _OF, (session_id, audience))
    if current is None:
        return
    unit.execute(
        "INSERT INTO frozen (session_id, audience, body) VALUES (?, ?, ?)",
        (session_id, audience, body),
    )
    unit.executemany(
        "INSERT INTO frozen_text (digest, text) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING",
        texts.items(),
    )
    parts = ((digest, session_id, audience) for digest in texts)
    unit.executemany(
        "INSERT INTO frozen_part (digest, session_id, audience) VALUES (?, ?, ?)", parts
    )


def note(unit: Unit, session_id: str, seq: int, text: str) -> None:
    """Stores the note that precedes message `seq` in requests."""
    unit.execute(
        "INSERT INTO frozen_note (session_id, seq, text) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id, seq) DO UPDATE SET text = excluded.text",
        (session_id, seq, text),
    )


def notes(reader: Reader, session_id: str) -> dict[int, str]:
    """Returns the notes of a session by message number."""
    return dict(reader.all("SELECT seq, text FROM frozen_note WHERE session_id = ?", (session_id,)))


def drop_parts(unit: Unit, session_id: str) -> None:
    """Deletes the parts, so that the session's next prompt is built again."""
    _drop(unit, "session_id = ?", (session_id,))


def drop_all(unit: Unit, session_id: str) -> None:
    """Deletes the parts and the notes, when the messages after the notes change or are dropped."""
    drop_parts(unit, session_id)
    unit.execute("DELETE FROM frozen_note WHERE session_id = ?", (session_id,))


def drop_text(unit: Unit, digest: str) -> None:
    """Deletes a text, so that every session with it builds its next prompt again."""
    for (session_id,) in unit.all(
        "SELECT DISTINCT session_id FROM frozen_part WHERE digest = ?", (digest,)
    ):
        drop_parts(unit, session_id)
    unit.execute("DELETE FROM frozen_text WHERE digest = ?", (digest,))


def _drop(unit: Unit, condition: str, values: tuple[str, ...]) -> None:
    """Deletes rows, and the texts that no other session uses."""
    digests = unit.all(f"SELECT DISTINCT digest FROM frozen_part WHERE {condition}", values)  # noqa: S608 - constant
    unit.execute(f"DELETE FROM frozen_part WHERE {condition}", values)  # noqa: S608 - constant
    unit.execute(f"DELETE FROM frozen WHERE {condition}", values)  # noqa: S608 - constant
    unit.executemany(
        "DELETE FROM frozen_text WHERE digest = ?"
        " AND digest NOT IN (SELECT digest FROM frozen_part)",
        digests,
    )
