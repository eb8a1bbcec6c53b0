"""Log of model calls beside the database, so that a kill loses no call of the ledger.

`calls.jsonl` gets one line when a call begins and one when it has ended. A line is the ledger row
of the call, with the outcome `lost` while the call is open. Each line is one `write` without a
sync: it survives the end of the process, not of the machine. The next start books the calls that
the database lacks.
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
"""Size limit of one file; a full file replaces the older file."""
BOOKED_MS: Final = 86_400_000
"""Age, relative to the newest line, up to which a line is booked: retention may have removed the
row of an older call from the database."""


class CallLog:
    """The two files of one state directory. Only one gateway has them open.

    `begin` and `end` take about 10 us each. If they cannot write, one warning is logged, and a kill
    may lose calls.
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
        """Returns an id that is unique among all processes."""
        return f"{self._process}-{next(self._numbers)}"

    def begin(self, call: BookedCall) -> None:
        """Writes the ledger row for the case that the process ends during the call."""
        line = msgspec.json.encode(call) + b"\n"
        self._open[call.call_id] = line
        self._write(line)

    def end(self, call: BookedCall) -> None:
        """Writes the ledger row of the ended call."""
        self._open.pop(call.call_id, None)
        self._write(msgspec.json.encode(call) + b"\n")

    def read(self) -> dict[str, BookedCall]:
        """Returns the calls of both files by id, each from its last line. Blocks."""
        calls: dict[str, BookedCall] = {}
        for call in self._lines():
            calls[call.call_id] = call
        newest = max((call.at for call in calls.values()), default=0)
        return {key: call for key, call in calls.items() if call.at >= newest - BOOKED_MS}

    def clear(self) -> None:
        """Removes the files after their calls were booked. Blocks."""
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
                # A kill tears the last line, a full disk any line.
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
        """Opens the file; if it is full, begins another one with the calls that are still open."""
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
