"""Prints texts for people, and JSON for scripts."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Any, Final, TextIO
from unicodedata import category, east_asian_width

from skerry.ports.model import ModelState, ModelStatus

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls without tab and newline
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction of text around
    "\ud800-\udfff]"  # half a character cannot be encoded
)
_WIDEST: Final = 60  # a session key may have 512 characters
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def plain(text: str) -> str:
    """Returns text without control characters; use it for all text of a model or a gateway."""
    return _UNPRINTABLE.sub("", text)


def one_line(text: str) -> str:
    """Returns `plain` text with all white space as single spaces."""
    return " ".join(plain(text).split())


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Returns the text in a style: `bold`, `dim`, `red`, `green` or `yellow`.

    The text is unchanged when the stream (default stdout) is no terminal, or NO_COLOR is set.
    """
    stream = sys.stdout if stream is None else stream
    colours = stream.isatty() and not os.environ.get("NO_COLOR")
    if not colours or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def show(text: str = "") -> None:
    """Prints text on stdout."""
    print(text)


def notice(text: str) -> None:
    """Prints a line on stderr, for people."""
    print(text, file=sys.stderr, flush=True)


def show_json(value: object) -> None:
    """Prints one JSON value on one line, in ASCII, without control characters."""
    print(json.dumps(value, ensure_ascii=True))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Returns the rows as text with aligned columns, two spaces apart.

    A cell of more than 60 columns extends its own row only. On a terminal the last column is cut at
    the edge; a pipe gets all of it.
    """
    widths = [min(max(map(width, column)), _WIDEST) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell + " " * (column_width - width(cell))
            for cell, column_width in zip(row, widths, strict=True)
        )
        for row in rows
    ]
    lines = [line.rstrip() for line in lines]
    if not sys.stdout.isatty() or any("\x1b" in line for line in lines):
        return "\n".join(lines)
    edge = get_terminal_size().columns
    before = [
        sum(
            max(width(cell), column_width) + 2
            for cell, column_width in zip(row[:-1], widths, strict=False)
        )
        for row in rows
    ]
    return "\n".join(
        _cut(line, edge) if start < edge else line
        for line, start in zip(lines, before, strict=True)
    )


def width(text: str) -> int:
    """Returns the width of the text in columns of a terminal."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if category(character) in {"Mn", "Me", "Cf"}:
        return 0  # it changes the one before
    return 2 if east_asian_width(character) in "WF" else 1


def _cut(line: str, edge: int) -> str:
    if width(line) <= edge:
        return line
    fitting, used = [], 1
    for character in line:
        used += _columns(character)
        if used > edge:
            break
        fitting.append(character)
    return "".join(fitting) + "…"


def local_time(milliseconds: int, *, seconds: bool = False) -> str:
    """Returns a time, in milliseconds since 1970, in the zone of this machine."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"


def model_line(status: ModelStatus) -> str:
    """Returns a line about the present model, or the reason and remedy when there is none."""
    about = one_line(f"{status.message} {status.remedy}")
    if status.model is None:
        return about or "none can answer yet"
    note = status.model.note or about
    state = "" if status.state is ModelState.READY else f" ({status.state.value})"
    return one_line(f"{status.model.ref}{state}") + (f" - {one_line(note)}" if note else "")


def text_of(message: object) -> str:
    """Returns the text of a message of the wire: `{content: text or [{type, text}]}`."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    blocks: Sequence[Any] = content if isinstance(content, list) else ()
    return "".join(
        block["text"]
        for block in blocks
        if isinstance(block, Mapping) and isinstance(block.get("text"), str)
    )
