"""Model calls in a file beside the database, so that a kill takes none of them from the ledger.

`calls.jsonl` gets one line when a call begins and one when it has ended. A line is the row that the
ledger is to have, a `lost` one as long as the call is open. It is one unsynced `write`: it survives
the end of the process, not of the machine. The next start books what the database lacks.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from skerry.store.usage import BookedCall

logger = logging.getLogger(__name__)

FILE: Final = "calls.jsonl"
OLDER: Final = "calls.1.jsonl"
MAX_BYTES: Final = 256 * 1024
"""Size limit of one file; a full file becomes the older one and replaces the one before."""
BOOKED_MS: Final = 86_400_000
"""Age, relative to the newest line, up to which a line is booked: the row of an older one may have
been removed from the database by retention."""


class CallLog:
    """The two files of one state directory. Only one gateway has them open.

    `begin` and `end` cost some 10 us each. Where they cannot write, the log says so once, and the
    ledger loses what a kill takes.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE
        self._older = state_dir / OLDER
        self._process = secrets.token_hex(8)
        self._numbers = count(1)
        self._file = -1
        self._size = 0
        self._open: dict[str, bytes] = {}
        self._failed = False

    def new_id(self) -> str:
        """Returns an id that no other call has, of this process or another."""
        return f"{self._process}-{next(self._numbers)}"

    def begin(self, call: BookedCall) -> None:
        """Writes how the ledger is to have the call if the process ends in it."""
        line = msgspec.json.encode(call) + b"\n"
        self._open[call.call_id] = line
        self._write(line)

    def end(self, call: BookedCall) -> None:
        """Writes what became of the call."""
        self._open.pop(call.call_id, None)
        self._write(msgspec.json.encode(call) + b"\n")

    def read(self) -> dict[str, BookedCall]:
        """Returns the calls of the files by their ids, as the last line of each says. Blocks."""
        calls: dict[str, BookedCall] = {}
        for call in self._lines():
            calls[call.call_id] = call
        newest = max((call.at for call in calls.values()), default=0)
        return {key: call for key, call in calls.items() if call.at >= newest - BOOKED_MS}

    def clear(self) -> None:
        """Removes the files, whose calls the database has. Blocks."""
        self.close()
        for path in (self._path, self._older):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file; the next line opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lines(self) -> Iterator[BookedCall]:
        for path in (self._older, self._path):
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                continue
            for line in text.splitlines():
                # A kill tears the last line; a full disk one in the middle.
                with suppress(msgspec.MsgspecError):
                    yield msgspec.json.decode(line, type=BookedCall)

    def _write(self, line: bytes) -> None:
        try:
            if self._file < 0 or self._size > MAX_BYTES:
                self._turn()
            size = os.write(self._file, line)
            self._size += size
            if size < len(line):
                os.write(self._file, b"\n")
        except OSError as error:
            if not self._failed:
                logger.warning("%s cannot be written: %s", self._path, error)
            self._failed = True
        else:
            self._failed = False

    def _turn(self) -> None:
        """Opens the file; where it is full, begin another with the calls that are still open."""
        full = self._file >= 0
        if full:
            self.close()
            self._path.replace(self._older)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size
        if full:
            for line in self._open.values():
                self._size += os.write(self._file, line)
