"""Senders in the owner's own conversations, for the doctor."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from skerry.infra import sqlite
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.store.unit import Reader

_LOOKED_AT: Final = 2000
"""Runs, the latest first."""
_OWNER_KEY: Final = re.compile("agent:.*:(main|global)")
_requests: Final = msgspec.json.Decoder(RunRequest)


def strangers_in_main(file: Path) -> int:
    """Returns how many chats of others have written in a main or the global conversation.

    Only the last 2,000 runs are looked at. The gateway may run meanwhile.
    """
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            rows = Reader(connection).each(
                "SELECT request, session_key FROM run WHERE length(request) > 0"
                " ORDER BY serial DESC LIMIT ?",
                (_LOOKED_AT,),
            )
            chats = {_stranger(request) for request, key in rows if _OWNER_KEY.fullmatch(key)}
    except sqlite3.Error:
        return 0  # the check of the database says what is wrong
    return len(chats - {None})


def _stranger(request: bytes) -> tuple[str, str] | None:
    """Returns channel and peer of a stranger's message; None of any other."""
    try:
        run_request = _requests.decode(request)
    except UNREADABLE:
        return None
    to = run_request.reply_to
    return (to.channel, to.peer.id) if to and run_request.origin is Origin.STRANGER else None
