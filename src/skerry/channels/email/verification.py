"""Verification of a mail's sender by what the owner's mail server reports (RFC 8601, pure)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

_MAX_CHARS: Final = 16_384
_DOUBTS: Final = frozenset({"fail", "temperror", "permerror"})


class _SyntaxError(ValueError):
    """A header is not well formed."""


class _Result(Struct, frozen=True):
    method: str
    result: str
    properties: dict[str, str]


def is_verified(headers: Iterable[str], authserv_ids: Sequence[str], domain: str) -> bool:
    """Returns whether a trusted server vouches for the domain of the sender's address.

    `headers` are the values of `Authentication-Results`, uppermost first. Only the uppermost with a
    trusted name counts: a server adds its own above the received ones, and the others may be forged
    by the sender. An unreadable header that may be of a trusted server verifies nobody: the sender
    can provoke such a header by the address of the envelope. DMARC decides; without a DMARC policy
    a signature (DKIM) or an envelope (SPF) of exactly this domain does.
    """
    trusted = {name.lower() for name in authserv_ids}
    for header in headers:
        try:
            server, results = _parsed(header)
        except _SyntaxError:
            named = _SERVER.match(header)
            if named is None or named[1].lower() in trusted:
                return False
            continue
        if server in trusted:
            return bool(domain) and _vouches(results, domain.lower())
    return False


def _vouches(results: list[_Result], domain: str) -> bool:
    dmarc = [result for result in results if result.method == "dmarc"]
    if any(result.result in _DOUBTS for result in dmarc):
        return False
    return any(result.result == "pass" and _subject(result) == domain for result in results)


def _subject(result: _Result) -> str:
    """Returns the domain of a result; empty for methods that do not count."""
    get = result.properties.get
    match result.method:
        case "dmarc":
            return _domain(get("header.from", ""))
        case "dkim":
            return _domain(get("header.d") or get("header.i", ""))
        case "spf":
            return _domain(get("smtp.mailfrom", ""))
    return ""


def _domain(address: str) -> str:
    return address.rpartition("@")[2].lower()


def _parsed(header: str) -> tuple[str, list[_Result]]:
    statements = _statements(header[: _MAX_CHARS + 1])
    server = statements[0][0].lower() if statements[0] else ""
    results = [_result(words) for words in statements[1:] if len(words) > 1]
    return server, results


def _result(words: list[str]) -> _Result:
    """Returns the result that `method = result property = value ...` states."""
    fields: list[tuple[str, str]] = []
    position = 0
    while position < len(words):
        if words[position + 1 : position + 2] != [_EQUALS] or position + 2 >= len(words):
            raise _SyntaxError
        fields.append((words[position].lower(), words[position + 2]))
        position += 3
    (method, result), *properties = fields
    named: dict[str, str] = {}
    for name, value in properties:
        if name in named:
            raise _SyntaxError
        named[name] = value
    return _Result(method.partition("/")[0], result.lower(), named)


_EQUALS: Final = "\0="
"""Marks the equals sign between a name and its value; no text can contain it."""


def _statements(header: str) -> list[list[str]]:
    """Returns the words of each statement, without comments; quoted signs are text."""
    if len(header) > _MAX_CHARS or "\0" in header:
        raise _SyntaxError
    statements: list[list[str]] = [[]]
    word = ""
    for kind, text in _lexemes(header):
        # Within a value the sign is text, as in `smtp.mailfrom=prvs=1=a@example.com`.
        in_value = bool(word) and statements[-1][-1:] == [_EQUALS]
        if kind == "word" or (kind == "equals" and in_value):
            word += text
            continue
        statements[-1] += [word] if word else []
        word = ""
        if kind == "equals":
            statements[-1].append(_EQUALS)
        elif kind == "end":
            statements.append([])
    statements[-1] += [word] if word else []
    return statements


def _lexemes(header: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(header):
        match = _LEXEME.match(header, position)
        if match is None:
            raise _SyntaxError
        kind, text, position = match.lastgroup or "", match[0], match.end()
        if kind == "comment":
            position = _comment_end(header, position)
        yield ("word", _ESCAPE.sub(r"\1", text[1:-1])) if kind == "quoted" else (kind, text)


_LEXEME: Final = re.compile(
    r"(?P<space>[ \t\r\n]+)|(?P<end>;)|(?P<equals>=)|(?P<comment>\()"
    r'|"(?P<quoted>(?:[^"\\]++|\\.)*+)"|(?P<word>[^\s;="()\\]+)',
    re.DOTALL,
)
_SERVER: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:;|\s[0-9])")
"""Beginning of a header that names its server, even when the rest is malformed."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(r"[^()\\]+|\\.|[()]", re.DOTALL)


def _comment_end(header: str, position: int) -> int:
    """Returns the position after the comment that began before `position`; comments may nest."""
    depth = 1
    while depth:
        match = _COMMENT.match(header, position)
        if match is None:
            raise _SyntaxError
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        position = match.end()
    return position
