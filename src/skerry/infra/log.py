"""The log: lines for people on stderr, JSON lines in the state directory, and no secret in either.

What is logged is rendered at once and written by threads of their own. A disk that is full or slow,
or a pipe that nobody reads, loses lines and never stops the one who logs.
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
"""Folder of the state directory."""
MOST_BYTES: Final = 10 * 1024 * 1024
"""Bytes of one file; a day has two at most, the older half of a loud one is lost."""
KEEP_FILES: Final = 14
REDACTED: Final = "[redacted]"

WAITING: Final = 2000
"""Lines that may wait for a slow disk."""
_LINE: Final = 16 * 1024
"""Characters of one line, its traceback included."""
_LOOKED_AT: Final = 4 * _LINE
"""Characters in which secrets are looked for before a line is cut: redaction shortens it."""
_CLOSE_SECONDS: Final = 2.0
_SHORTEST: Final = 4
"""Characters of a known secret; anything shorter would black out ordinary words."""
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
    """Removes secrets from text: the known ones, and whatever looks like a key."""

    def __init__(self) -> None:
        self._known: re.Pattern[str] | None = None

    def know(self, secrets: Iterable[str]) -> None:
        """Takes these for secrets from now on, and no others."""
        long = sorted(
            {secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True
        )
        self._known = re.compile("|".join(map(re.escape, long))) if long else None

    def __call__(self, text: str) -> str:
        """Returns the text without its secrets."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        return _SHAPES.sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    matched, secret = match.group(), match.group(match.lastgroup or 0)
    return matched.replace(secret, REDACTED)


class Plain(logging.Formatter):
    """One line for people, and the traceback below it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as text without secrets."""
        return self._redact(super().format(record)[:_LOOKED_AT])[:_LINE]

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the library has it
        """Returns the line, of which no text can make two, and none steers a terminal."""
        return _readable(super().formatMessage(record))


class Lines(logging.Formatter):
    """One JSON object on one line: time, level, logger, message, and error with a traceback."""

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
            "message": self._redact(record.getMessage()[:_LOOKED_AT])[:_LINE],
        }
        if record.exc_info:
            line["error"] = self._redact(self.formatException(record.exc_info)[-_LOOKED_AT:])[
                -_LINE:
            ]
        return _readable(json.dumps(line, ensure_ascii=False))


def _readable(line: str) -> str:
    """Returns the line with its control characters as JSON escapes them."""
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in line
    )


class Behind(logging.Handler):
    """Renders a record where it is logged; `write` gets the line in a thread of its own.

    Lines that find too many before them, or whose `write` raises `OSError`, are lost; the next one
    that is written gives their number.
    """

    def __init__(self, formatter: logging.Formatter, write: Callable[[str], None]) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._write = write
        self._lines: deque[str] = deque()
        self._changed = Condition()
        self._closing = False
        self._lost = 0
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a record."""
        line = self.format(record)
        with self._changed:
            if len(self._lines) >= WAITING:
                self._lost += 1
            else:
                self._lines.append(line)
                self._changed.notify()

    def close(self) -> None:
        """Writes what waits, for two seconds at most."""
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
                line, lost = self._lines.popleft(), self._lost
                self._lost = 0
            try:
                if lost:
                    self._write(self.format(_loss(lost)))
                    lost = 0
                self._write(line)
            except (OSError, ValueError):  # ValueError: the stream is closed
                with self._changed:
                    self._lost += lost + 1


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
        """Writes a line.

        Raises:
            OSError: it could not be written; the next one is tried anew.
        """
        data = line.encode(errors="replace") + b"\n"
        day = f"{datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC):%Y-%m-%d}"
        try:
            if self._file < 0 or day != self._day:
                self._open(day)
            elif self._size + len(data) > MOST_BYTES:
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
    """Returns the log's files, the oldest first."""
    try:
        paths = [path for path in folder.iterdir() if _FILE.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    return sorted(paths, key=lambda path: (path.name[:17], ".1" not in path.name))


@contextmanager
def writing(
    folder: Path, redact: Redactor, clock: Clock, *, verbose: bool = False
) -> Generator[None]:
    """Logs for the block: warnings to stderr, information to `folder`; `verbose`: all to both."""
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
    """The end of the log; the next call continues at `cursor`. `reset`: it is another file."""

    file: Path
    cursor: int
    size: int
    lines: tuple[str, ...]
    truncated: bool
    reset: bool


def tail(folder: Path, *, cursor: int | None, limit: int, max_bytes: int) -> Tail:
    """Returns lines of the latest file, after `cursor` where there is one.

    At most `limit` whole lines out of the last `max_bytes`; when that leaves some out it is
    `truncated`. A cursor beyond the end is of another file: it begins anew.

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
    if start > 0:  # the line that `start` is in the middle of is not whole
        skipped = data.find(b"\n") + 1
    complete = data.rfind(b"\n") + 1
    lines = data[skipped:complete].decode(errors="replace").split("\n")[:-1]
    end = size - len(data) + max(complete, min(1, start))
    cut = start > begin or len(lines) > limit
    return Tail(path, end, size, tuple(lines[-limit:]), truncated=cut, reset=reset)
