"""The log: lines for people on stderr, JSON lines in the state directory, secrets removed.

Records are rendered by the thread that logs and written by a background thread. A slow or full disk
or an unread pipe loses lines; it never blocks the caller.
"""

import json
import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition, Thread
from typing import Final

from msgspec import Struct

from skerry.infra.atomic import make_private
from skerry.infra.clock import Clock

LOGS: Final = "logs"
"""Folder in the state directory."""
MAX_BYTES: Final = 10 * 1024 * 1024
"""Limit of one file, in bytes. A day has at most two files; older lines of it are deleted."""
KEEP_FILES: Final = 14
"""Number of files that are kept."""
REDACTED: Final = "[redacted]"

WAITING: Final = 2000
"""Limit of queued lines per destination."""
_LINE: Final = 16 * 1024
"""Limit of one line, in characters; of a JSON line, limit of its message and of its error."""
_REDACTED_CHARS: Final = 4 * _LINE
"""Characters that are redacted before a line is cut to `_LINE`."""
_CLOSE_SECONDS: Final = 2.0
_SHORTEST: Final = 4
"""Least length of a known secret: a shorter one would remove ordinary words."""
_FILE: Final = re.compile(r"skerry-\d{4}-\d\d-\d\d(\.1)?\.log")

_SHAPES: Final = re.compile(
    r"""(?xi)
    (?: \bbearer\s+ | \bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|token)\s+)? )
        (?P<header> [A-Za-z0-9._~+/=-]{6,} )
    | \b(?:api[_-]?key|access[_-]?key|token|secret|password|passwd|passphrase)\b
        ["']? \s* [:=] \s* ["']? (?P<named> [^\s"',;&}]{6,} )
    | (?<=://) (?P<user> [^/\s@:]+:[^/\s@]+ ) (?=@)
    | \b(?P<shaped>
        sk-[A-Za-z0-9_-]{16,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
        | xox[abeoprs]-[A-Za-z0-9-]{10,} | AIza[A-Za-z0-9_-]{30,} | A[KS]IA[A-Z0-9]{16}
        | gsk_[A-Za-z0-9]{20,} | hf_[A-Za-z0-9]{20,} | npm_[A-Za-z0-9]{20,}
        | eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]++){0,4}
        | \d{8,10}:[A-Za-z0-9_-]{35} )
    | (?P<pem> -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z) )
    """,
    re.DOTALL,
)


class Redactor:
    """Replaces secrets in text: the known ones, and text with the shape of a key."""

    def __init__(self) -> None:
        self._secrets: re.Pattern[str] | None = None

    def set_secrets(self, secrets: Iterable[str]) -> None:
        """Replaces the list of known secrets. Ignores those shorter than 4 characters."""
        long = sorted(
            {secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True
        )
        self._secrets = re.compile("|".join(map(re.escape, long))) if long else None

    def __call__(self, text: str) -> str:
        """Returns the text with each secret replaced by `[redacted]`."""
        if self._secrets is not None:
            text = self._secrets.sub(REDACTED, text)
        return _SHAPES.sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    matched, secret = match.group(), match.group(match.lastgroup or 0)
    return matched.replace(secret, REDACTED)


class Plain(logging.Formatter):
    """Formats a record as one line for people, with the traceback below it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as text without secrets."""
        return self._redact(super().format(record)[:_REDACTED_CHARS])[:_LINE]

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the library has it
        """Returns the line; line breaks and control characters are escaped."""
        return _readable(super().formatMessage(record))


class Lines(logging.Formatter):
    """Formats a record as a JSON object on one line.

    Keys: `time`, `level`, `logger`, `message`, and `error` with the traceback of an exception.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as JSON without secrets."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()[:_REDACTED_CHARS])[:_LINE],
        }
        if record.exc_info:
            line["error"] = self._redact(self.formatException(record.exc_info)[-_REDACTED_CHARS:])[
                -_LINE:
            ]
        return _readable(json.dumps(line, ensure_ascii=False))


def _readable(line: str) -> str:
    """Returns the line with unprintable characters escaped as in JSON."""
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in line
    )


class Behind(logging.Handler):
    """Formats records in the calling thread and calls `write` in a background thread.

    A line is dropped when `WAITING` lines are queued, or when `write` raises `OSError`. The number
    of dropped lines is written before the next line.
    """

    def __init__(self, formatter: logging.Formatter, write: Callable[[str], None]) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._write = write
        self._lines: deque[str] = deque()
        self._changed = Condition()
        self._closing = False
        self._dropped = 0
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Formats and queues a record."""
        line = self.format(record)
        with self._changed:
            if len(self._lines) >= WAITING:
                self._dropped += 1
            else:
                self._lines.append(line)
                self._changed.notify()

    def close(self) -> None:
        """Writes the queued lines; waits at most two seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)
        super().close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._closing:
                    self._changed.wait()
                if not self._lines:
                    return
                line, dropped = self._lines.popleft(), self._dropped
                self._dropped = 0
            try:
                if dropped:
                    self._write(self.format(_loss(dropped)))
                    dropped = 0
                self._write(line)
            except (OSError, ValueError):  # ValueError: the stream is closed
                with self._changed:
                    self._dropped += dropped + 1


def _loss(lines: int) -> logging.LogRecord:
    text = "%d lines of the log were lost"
    return logging.LogRecord(__name__, logging.WARNING, "", 0, text, (lines,), None)


class DailyFiles:
    """Appends lines to `skerry-YYYY-MM-DD.log`, a new file every day (UTC), mode 0600."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._day = ""
        self._file = -1
        self._size = 0

    def __call__(self, line: str) -> None:
        """Appends a line; opens and rotates files as necessary.

        Raises:
            OSError: the line could not be written. The next call opens the file again.
        """
        data = line.encode(errors="replace") + b"\n"
        day = f"{datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC):%Y-%m-%d}"
        try:
            if self._file < 0 or day != self._day:
                self._open(day)
            elif self._size + len(data) > MAX_BYTES:
                path = self._path(day)
                path.replace(path.with_suffix(".1.log"))
                self._open(day)
            self._size += os.write(self._file, data)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _path(self, day: str) -> Path:
        return self._folder / f"skerry-{day}.log"

    def _open(self, day: str) -> None:
        self.close()
        make_private(self._folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._path(day), flags, 0o600)
        self._day, self._size = day, os.fstat(self._file).st_size
        for old in files(self._folder)[:-KEEP_FILES]:
            old.unlink(missing_ok=True)


def files(folder: Path) -> list[Path]:
    """Returns the files of the log in `folder`, oldest first."""
    try:
        paths = [path for path in folder.iterdir() if _FILE.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    return sorted(paths, key=lambda path: (path.name[:17], ".1" not in path.name))


@contextmanager
def writing(
    folder: Path, redact: Redactor, clock: Clock, *, verbose: bool = False
) -> Generator[None]:
    """Installs the log for the block.

    Warnings go to stderr, INFO and above to files in `folder`; with `verbose` all goes to both.
    """
    stderr = Behind(Plain(redact), _to_stderr)
    files = Behind(Lines(redact), DailyFiles(folder, clock))
    if not verbose:
        stderr.setLevel(logging.WARNING)
    handlers = (stderr, files)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(before)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Tail(Struct, frozen=True):
    """Lines at the end of the log."""

    file: Path
    cursor: int
    """Offset in bytes at which the next call continues."""
    size: int
    """Size of the file, in bytes."""
    lines: tuple[str, ...]
    truncated: bool
    """True when older lines were left out."""
    reset: bool
    """True when the given cursor was of another file."""


def tail(folder: Path, *, cursor: int | None, limit: int, max_bytes: int) -> Tail:
    """Returns the last whole lines of the latest file, those after `cursor` where it is given.

    At most `limit` lines out of the last `max_bytes`. A cursor beyond the end belongs to another
    file and is ignored.

    Raises:
        OSError: the file cannot be read.
    """
    paths = files(folder)
    if not paths:
        return Tail(folder / "skerry.log", 0, 0, (), truncated=False, reset=bool(cursor))
    path = paths[-1]
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        reset = cursor is not None and cursor > size
        begin = 0 if cursor is None or reset else cursor
        start = max(begin, size - max_bytes)
        file.seek(max(0, start - 1))
        data = file.read(size - file.tell())
    skipped = 0
    if start > 0:  # the line that contains `start` is incomplete
        skipped = data.find(b"\n") + 1
    complete = data.rfind(b"\n") + 1
    lines = data[skipped:complete].decode(errors="replace").split("\n")[:-1]
    end = size - len(data) + max(complete, min(1, start))
    cut = start > begin or len(lines) > limit
    return Tail(path, end, size, tuple(lines[-limit:]), truncated=cut, reset=reset)
