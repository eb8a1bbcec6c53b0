"""Who has written in the owner's own conversations, for the doctor."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from skerry.infra import sqlite

_LOOKED_AT: Final = 2000
"""Runs, the latest first."""


def strangers_in_main(file: Path) -> int:
    """Return how many chats of others have written in a main or the global conversation.

    Only the last 2,000 runs are looked at. The gateway may run meanwhile.
    """
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            found = connection.execute(
                "SELECT count(DISTINCT json_extract(request, '$.reply_to.channel')"
                " || json_extract(request, '$.reply_to.peer.id'))"
                " FROM (SELECT CAST(request AS TEXT) AS request, session_key FROM run"
                " WHERE length(request) > 0 ORDER BY serial DESC LIMIT ?)"
                " WHERE (session_key LIKE 'agent:%:main' OR session_key LIKE 'agent:%:global')"
                " AND json_extract(request, '$.reply_to') IS NOT NULL"
                " AND json_extract(request, '$.origin') = 'stranger'",
                (_LOOKED_AT,),
            ).fetchone()
    except sqlite3.Error:
        return 0  # the check of the database says what is wrong
    return int(found[0])
