"""The configuration file: its text, its tree, its hash."""

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from skerry.infra.untrusted_json import is_deep
from skerry.model.errors import ConfigInvalidError, ConfigIssue

MAX_BYTES: Final = 1_048_576
"""Maximum bytes of the file; a larger file is refused."""

_LEVELS: Final = 31
"""Nesting depth of objects and lists; deeper text is left to the JSON5 parser, which refuses it."""
_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: starting)? near (?P<at>\d+)(?P<rest>.*)", re.DOTALL)
_NAME: Final = re.compile(r"b'(\w+)'")
_CHARACTER: Final = re.compile(r"U\+([0-9a-fA-F]{4,6})")


@dataclass(frozen=True, slots=True)
class Source:
    """Content of the file. `mode` has the permission bits; None if there is no file."""

    path: Path
    raw: str = field(default="", repr=False)
    parsed: dict[str, Any] = field(default_factory=dict, repr=False)
    mode: int | None = None

    @property
    def exists(self) -> bool:
        """Returns whether there is a file."""
        return self.mode is not None

    @property
    def hash(self) -> str:
        """Returns the SHA-256 of the text, 64 hex digits."""
        return sha256(self.data).hexdigest()

    @property
    def data(self) -> bytes:
        """Returns the bytes of the text, even if they are not valid UTF-8."""
        return self.raw.encode(errors="surrogateescape")


def read(path: Path) -> Source:
    """Returns the text and the tree of the file; an empty `Source` if there is no file.

    Raises:
        ConfigInvalidError: not a plain file, too large, not UTF-8, not JSON5, or not an object. The
            message has no part of the text, because it may be a secret.
    """
    try:
        data, mode = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return Source(path)
    except OSError as error:
        raise _invalid(path, f"it cannot be read: {error.strerror}.", "Check its owner.") from error
    raw = text(path, data)
    return Source(path, raw, parse(path, raw), mode)


def text(path: Path, data: bytes) -> str:
    """Returns the text of a file's bytes.

    Raises:
        ConfigInvalidError: the bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(path, f"byte {error.start} is not UTF-8.", "Save it as UTF-8.") from None


def parse_any(path: Path, raw: str) -> Any:
    """Parses JSON5 text; blank text is an empty object.

    Raises:
        ConfigInvalidError: the text is not JSON5; the issue has line and column.
    """
    if not raw.strip():
        return {}
    with suppress(msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        plain = msgspec.json.decode(raw)
        if not is_deep(plain, _LEVELS):
            return plain
    import pyjson5  # noqa: PLC0415 - 1.4 MB of memory, and most files are plain JSON

    try:
        return pyjson5.loads(raw)
    except pyjson5.Json5Exception as error:
        # The other arguments of the exception have the values parsed so far, secrets included.
        raise _invalid(
            path, _syntax_message(str(error.args[0]), raw), "Correct the syntax."
        ) from None


def parse(path: Path, raw: str) -> dict[str, Any]:
    """Returns the object of a JSON5 text; blank text is an empty object.

    Raises:
        ConfigInvalidError: the text is not JSON5, or not an object.
    """
    parsed = parse_any(path, raw)
    if not isinstance(parsed, dict):
        raise _invalid(path, "it must be one object.", "Put everything between { and }.")
    return parsed


def read_bytes(path: Path) -> tuple[bytes, int]:
    """Reads the file; returns its content and its permission bits.

    Raises:
        ConfigInvalidError: not a plain file, or too large.
        OSError: the file cannot be read.
    """
    # Non-blocking: a named pipe at this path must not hang the start.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _invalid(path, "it is not a plain file.", "Name a file.")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _invalid(path, f"it is larger than {MAX_BYTES} bytes.", "Check that it is the file.")
    return data, stat.S_IMODE(status.st_mode)


def _syntax_message(message: str, raw: str) -> str:
    """Returns the message of the parser with line and column instead of a character's number."""
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return "it is not JSON5."
    before = raw[: int(match["at"])]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    text = _NAME.sub(r"\1", match["what"] + match["rest"])
    text = _CHARACTER.sub(lambda code: repr(chr(int(code[1], 16))), text)
    return f"line {line}, column {max(column, 1)}: {text}."


def _invalid(path: Path, message: str, remedy: str) -> ConfigInvalidError:
    return ConfigInvalidError(str(path), [ConfigIssue("", message, remedy)])
