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

_MAX_RUNS: Final = 2000
"""Limit on the runs that are read, the latest first."""
_OWNER_KEY: Final = re.compile("agent:.*:(main|global)")
_requests: Final = msgspec.json.Decoder(RunRequest)


def strangers_in_main(file: Path) -> int:
    """Counts the chats of strangers that wrote in a main or the global conversation.

    Reads only the last 2,000 runs. The gateway may run meanwhile.
    """
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            rows = Reader(connection).each(
                "SELECT request, session_key FROM run WHERE length(request) > 0"
                " ORDER BY serial DESC LIMIT ?",
                (_MAX_RUNS,),
            )
            chats = {_stranger(request) for request, key in rows if _OWNER_KEY.fullmatch(key)}
    except sqlite3.Error:
        return 0  # the check of the database reports the error
    return len(chats - {None})


def _stranger(request: bytes) -> tuple[str, str] | None:
    """Returns channel and peer of a stranger's message; None for any other message."""
    try:
        run_request = _requests.decode(request)
    except UNREADABLE:
        return None
    to = run_request.reply_to
    return (to.channel, to.peer.id) if to and run_request.origin is Origin.STRANGER else None
