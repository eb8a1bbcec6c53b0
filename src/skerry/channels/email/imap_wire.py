"""Responses of IMAP servers as values (RFC 9051), and arguments of commands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

Word: TypeAlias = "str | bytes | list[Word] | None"
"""An atom, a string, a list, or NIL."""

LITERAL: Final = re.compile(rb"\{(\d{1,10})\}$")
_TOKEN: Final = re.compile(
    rb'(?P<space> +)|(?P<open>\()|(?P<close>\))|"(?P<quoted>(?:[^"\\]++|\\.)*+)"'
    rb'|(?P<atom>[^\s()"\[]*\[[^\]]*\][^\s()"]*|[^\s()"]+)'
)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_MAX_NESTING: Final = 60
_MAX_PARTS: Final = 200


class ImapSyntaxError(ValueError):
    """Error: a response violates the protocol."""


class ImapResponse(Struct, frozen=True):
    """One response of the server."""

    tag: str
    """`*` for untagged data, `+` for a continuation request, else the tag of the command."""
    words: list[Word]
    text: str
    """The first line without the tag."""

    @property
    def name(self) -> str:
        """Returns the first word, or the second one after a number, in capitals."""
        atoms = [word for word in self.words[:2] if isinstance(word, str)]
        if len(atoms) > 1 and atoms[0].isdecimal():
            return atoms[1].upper()
        return atoms[0].upper() if atoms else ""


def parse(parts: Sequence[bytes]) -> ImapResponse:
    """Returns the response of alternating lines and literals.

    Raises:
        ImapSyntaxError: the response is malformed.
    """
    first = parts[0]
    tag, _, content = first.partition(b" ")
    text = content.decode("utf-8", "replace")
    if tag == b"+":
        return ImapResponse("+", [], text)
    is_free = content.split(b" ", 1)[0].upper() in {b"OK", b"NO", b"BAD", b"BYE", b"PREAUTH"}
    if is_free:  # free text for people follows
        return ImapResponse(
            tag.decode("ascii", "replace"), [content.split(b" ", 1)[0].decode()], text
        )
    return ImapResponse(tag.decode("ascii", "replace"), _words([content, *parts[1:]]), text)


def _words(parts: Sequence[bytes]) -> list[Word]:
    root: list[Word] = []
    open_lists = [root]
    for number, part in enumerate(parts):
        if number % 2:  # a literal
            open_lists[-1].append(part)
            continue
        for kind, token in _tokens(LITERAL.sub(b"", part)):
            _add(open_lists, kind, token)
            if not 0 < len(open_lists) <= _MAX_NESTING:
                raise ImapSyntaxError("The lists of a response are not well nested.")
    if len(open_lists) != 1:
        raise ImapSyntaxError("A list of a response has no end.")
    return root


def _add(open_lists: list[list[Word]], kind: str, token: bytes) -> None:
    match kind:
        case "open":
            inner: list[Word] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
        case "close":
            open_lists.pop()
        case "quoted":
            open_lists[-1].append(_ESCAPE.sub(rb"\1", token))
        case _:
            atom = token.decode("utf-8", "replace")
            open_lists[-1].append(None if atom.upper() == "NIL" else atom)


def _tokens(part: bytes) -> Iterator[tuple[str, bytes]]:
    position = 0
    while position < len(part):
        match = _TOKEN.match(part, position)
        if match is None or match.end() == position:
            raise ImapSyntaxError(
                f"A response cannot be read at {part[position : position + 20]!r}."
            )
        position = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            yield kind, match[kind]


def pairs(words: Sequence[Word]) -> Mapping[str, Word]:
    """Returns names and values of a list in which they alternate; names in capitals."""
    return {
        name.upper(): value
        for name, value in zip(words[::2], words[1::2], strict=False)
        if isinstance(name, str)
    }


def quoted(text: str) -> str:
    """Returns a text as an argument of a command.

    Raises:
        ImapSyntaxError: the text has a character that a quoted argument cannot have.
    """
    if not text.isascii() or any(char in text for char in "\r\n\0"):
        raise ImapSyntaxError(
            "A name or a password has characters that a quoted string of IMAP cannot have."
        )
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Part(Struct, frozen=True):
    """One part of a message that is no multipart, as BODYSTRUCTURE describes it."""

    number: str
    """Number of the part in FETCH, such as `1.2`."""
    mime: str
    params: Mapping[str, str]
    encoding: str
    size: int
    """Bytes in the encoding."""
    disposition: str = ""
    name: str = ""
    container: str = ""
    """Subtype of the enclosing multipart; empty for none."""


def parts(structure: Word) -> list[Part]:
    """Returns the parts that a BODYSTRUCTURE describes, in order, at most 200."""
    text_parts: list[Part] = []
    if isinstance(structure, list):
        _walk(structure, "", "", text_parts)
    return text_parts[:_MAX_PARTS]


def _walk(body: list[Word], number: str, container: str, text_parts: list[Part]) -> None:
    inner = [word for word in body if isinstance(word, list)] if _is_multipart(body) else []
    if not inner:
        text_parts.append(_part(body, number or "1", container))
        return
    count = next((n for n, word in enumerate(body) if not isinstance(word, list)), len(body))
    kind = _text(body[count]).lower() if count < len(body) else ""
    for position, word in enumerate(body[:count], 1):
        if isinstance(word, list) and len(text_parts) < _MAX_PARTS:
            _walk(word, f"{number}.{position}" if number else f"{position}", kind, text_parts)


def _is_multipart(body: list[Word]) -> bool:
    return bool(body) and isinstance(body[0], list)


def _part(body: list[Word], number: str, container: str) -> Part:
    padded = [*body, *[None] * 8]
    kind, subtype = _text(padded[0]).lower(), _text(padded[1]).lower()
    params, size = _mapping(padded[2]), _text(padded[6])
    # After the seven fields of all parts, text has a count of lines, and a message three fields.
    extra = 8 if kind == "text" else 10 if (kind, subtype) == ("message", "rfc822") else 7
    disposition = body[extra + 1] if len(body) > extra + 1 else None
    named: Mapping[str, str] = {}
    word = ""
    if isinstance(disposition, list) and disposition:
        word = _text(disposition[0]).lower()
        named = _mapping(disposition[1]) if len(disposition) > 1 else {}
    return Part(
        number,
        f"{kind}/{subtype}",
        params,
        _text(padded[5]).lower(),
        int(size) if size.isdecimal() else 0,
        word,
        named.get("filename") or named.get("filename*") or params.get("name", ""),
        container,
    )


def _mapping(word: Word) -> Mapping[str, str]:
    if not isinstance(word, list):
        return {}
    names, values = word[::2], word[1::2]
    return {_text(name).lower(): _text(value) for name, value in zip(names, values, strict=False)}


def _text(word: Word) -> str:
    if isinstance(word, bytes):
        return word.decode("utf-8", "replace")
    return word if isinstance(word, str) else ""
