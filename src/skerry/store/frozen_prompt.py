"""System prompt parts that sessions keep from their start; a text of several is stored once.

A note is what a session was told since, before the message of its number.
"""

from collections.abc import Mapping
from typing import Final

from skerry.store.unit import Reader, Unit

_OF: Final = "session_id = ? AND audience = ?"


def find(reader: Reader, session_id: str, audience: str) -> tuple[bytes, dict[str, str]] | None:
    """Returns the stored parts for a session and its audience, with the texts by their digest."""
    row = reader.one(f"SELECT body FROM frozen WHERE {_OF}", (session_id, audience))  # noqa: S608 - constant
    if row is None:
        return None
    texts = reader.all(
        f"SELECT digest, text FROM frozen_part JOIN frozen_text USING (digest) WHERE {_OF}",  # noqa: S608 - constant
        (session_id, audience),
    )
    return row[0], dict(texts)


def keep(unit: Unit, session_id: str, audience: str, body: bytes, texts: Mapping[str, str]) -> None:
    """Keeps it in place of what was kept; nothing of a session that has ended meanwhile."""
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
    """Keeps what stands before message `seq` when it is sent."""
    unit.execute(
        "INSERT INTO frozen_note (session_id, seq, text) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id, seq) DO UPDATE SET text = excluded.text",
        (session_id, seq, text),
    )


def notes(reader: Reader, session_id: str) -> dict[int, str]:
    """Returns the notes of a session by the number of their message."""
    return dict(reader.all("SELECT seq, text FROM frozen_note WHERE session_id = ?", (session_id,)))


def melt(unit: Unit, session_id: str) -> None:
    """Lets the session's next prompt be made anew."""
    _drop(unit, "session_id = ?", (session_id,))


def end(unit: Unit, session_id: str) -> None:
    """Removes the notes too: the messages before which they stood are not sent as they were."""
    melt(unit, session_id)
    unit.execute("DELETE FROM frozen_note WHERE session_id = ?", (session_id,))


def melt_text(unit: Unit, digest: str) -> None:
    """Lets every session that began with the text have its next prompt made anew."""
    for (session_id,) in unit.all(
        "SELECT DISTINCT session_id FROM frozen_part WHERE digest = ?", (digest,)
    ):
        melt(unit, session_id)
    unit.execute("DELETE FROM frozen_text WHERE digest = ?", (digest,))


def _drop(unit: Unit, condition: str, values: tuple[str, ...]) -> None:
    """Removes rows, and the texts that nobody else began with."""
    digests = unit.all(f"SELECT DISTINCT digest FROM frozen_part WHERE {condition}", values)  # noqa: S608 - constant
    unit.execute(f"DELETE FROM frozen_part WHERE {condition}", values)  # noqa: S608 - constant
    unit.execute(f"DELETE FROM frozen WHERE {condition}", values)  # noqa: S608 - constant
    unit.executemany(
        "DELETE FROM frozen_text WHERE digest = ?"
        " AND digest NOT IN (SELECT digest FROM frozen_part)",
        digests,
    )
