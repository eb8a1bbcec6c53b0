"""Bytes of the keys that `send-keys` names, as a terminal sends them (pure)."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

ESCAPE: Final = "\x1b"
PASTE_BEGIN: Final = "\x1b[200~"
PASTE_END: Final = "\x1b[201~"

_NAMED: Final = MappingProxyType(
    {
        "enter": "\r",
        "return": "\r",
        "tab": "\t",
        "escape": ESCAPE,
        "esc": ESCAPE,
        "space": " ",
        "bspace": "\x7f",
        "backspace": "\x7f",
        "up": "\x1b[A",
        "down": "\x1b[B",
        "right": "\x1b[C",
        "left": "\x1b[D",
        "home": "\x1b[1~",
        "end": "\x1b[4~",
        "insert": "\x1b[2~",
        "ic": "\x1b[2~",
        "delete": "\x1b[3~",
        "del": "\x1b[3~",
        "dc": "\x1b[3~",
        "pageup": "\x1b[5~",
        "pgup": "\x1b[5~",
        "ppage": "\x1b[5~",
        "pagedown": "\x1b[6~",
        "pgdn": "\x1b[6~",
        "npage": "\x1b[6~",
        "btab": "\x1b[Z",
        "f1": "\x1bOP",
        "f2": "\x1bOQ",
        "f3": "\x1bOR",
        "f4": "\x1bOS",
        "f5": "\x1b[15~",
        "f6": "\x1b[17~",
        "f7": "\x1b[18~",
        "f8": "\x1b[19~",
        "f9": "\x1b[20~",
        "f10": "\x1b[21~",
        "f11": "\x1b[23~",
        "f12": "\x1b[24~",
    }
)
_MODIFIED: Final = re.compile(r"((?:[CMS]-)+)(.+)", re.IGNORECASE | re.DOTALL)
_CURSOR: Final = re.compile(r"\x1b\[([A-D])")
_TILDE: Final = re.compile(r"\x1b\[(\d+)~")


class UnknownKeyError(ValueError):
    """A modifier with a key for which terminals have no bytes."""


def encoded(tokens: Iterable[str]) -> bytes:
    """Returns the bytes of keys in the notation of tmux: `C-c`, `M-x`, `Up`, `Enter`, or text.

    A token that names no key is sent as text.

    Raises:
        UnknownKeyError: a modifier does not apply to its key.
    """
    return "".join(map(_key, tokens)).encode("utf-8", "replace")


def from_hex(values: Iterable[str]) -> bytes:
    """Returns the bytes of hexadecimal values such as `1b` or `0x0d`.

    Raises:
        ValueError: a value is not hexadecimal, or more than a byte.
    """
    return bytes(int(value.strip().lower().removeprefix("0x"), 16) for value in values)


def pasted(text: str, *, bracketed: bool) -> bytes:
    """Returns the bytes of pasted text; removes the marks of a paste within it."""
    if not bracketed:
        return text.encode("utf-8", "replace")
    inner = text
    while (
        PASTE_BEGIN in inner or PASTE_END in inner
    ):  # the removal may join the halves of another mark
        inner = inner.replace(PASTE_BEGIN, "").replace(PASTE_END, "")
    return f"{PASTE_BEGIN}{inner}{PASTE_END}".encode("utf-8", "replace")


def _key(token: str) -> str:
    named = _NAMED.get(token.lower())
    if named is not None:
        return named
    if len(token) == 2 and token[0] == "^":  # noqa: PLR2004 - a caret and a letter
        return _control(token[1], token)
    modified = _MODIFIED.fullmatch(token)
    return token if modified is None else _modify(modified[1].upper(), modified[2], token)


def _modify(modifiers: str, base: str, token: str) -> str:
    control, meta, shift = "C-" in modifiers, "M-" in modifiers, "S-" in modifiers
    named = _NAMED.get(base.lower())
    if named is None and len(base) != 1:
        raise UnknownKeyError(token)
    if named is not None and (cursor := _CURSOR.fullmatch(named) or _TILDE.fullmatch(named)):
        number = 1 + shift + 2 * meta + 4 * control
        key = cursor[1]
        return f"\x1b[1;{number}{key}" if key.isalpha() else f"\x1b[{key};{number}~"
    key = base if named is None else named
    if shift:
        key = "\x1b[Z" if key == "\t" else key.upper()
    if control:
        key = _control(key, token)
    return ESCAPE + key if meta else key


def _control(key: str, token: str) -> str:
    if key in {" ", "@"}:
        return "\x00"
    if key == "?":
        return "\x7f"
    code = ord(key.upper()) if len(key) == 1 else 0
    if not 0x41 <= code <= 0x5F:  # noqa: PLR2004 - from A to _
        raise UnknownKeyError(token)
    return chr(code & 0x1F)
