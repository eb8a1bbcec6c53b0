"""Verification of a mail's sender by what the owner's mail server reports (RFC 8601, pure)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

_MOST_CHARS: Final = 16_384
_DOUBTS: Final = frozenset({"fail", "temperror", "permerror"})


class _SyntaxError(ValueError):
    """A header is not well formed."""


class _Result(Struct, frozen=True):
    method: str
    result: str
    properties: dict[str, str]


def is_verified(headers: Iterable[str], authserv_ids: Sequence[str], domain: str) -> bool:
    """Returns whether a trusted server vouches for the domain of the sender's address.

    `headers` are the values of `Authentication-Results`, uppermost first. Of those that bear a
    trusted name the uppermost alone counts: a server writes its own above what arrived, and the
    others may be the sender's. So one that may be of a trusted server, and cannot be read, verifies
    nobody: whoever chooses the address of an envelope can make the server write such a line. DMARC
    decides; without a policy a signature (DKIM) or an envelope (SPF) of exactly this domain does.
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
    dmarc = [one for one in results if one.method == "dmarc"]
    if any(one.result in _DOUBTS for one in dmarc):
        return False
    return any(one.result == "pass" and _subject(one) == domain for one in results)


def _subject(result: _Result) -> str:
    """Returns the domain that a result is about; empty for methods that do not count."""
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
    statements = _statements(header[: _MOST_CHARS + 1])
    server = statements[0][0].lower() if statements[0] else ""
    results = [_result(words) for words in statements[1:] if len(words) > 1]
    return server, results


def _result(words: list[str]) -> _Result:
    """Returns the result that `method = result property = value ...` states."""
    fields: list[tuple[str, str]] = []
    place = 0
    while place < len(words):
        if words[place + 1 : place + 2] != [_EQUALS] or place + 2 >= len(words):
            raise _SyntaxError
        fields.append((words[place].lower(), words[place + 2]))
        place += 3
    (method, result), *properties = fields
    named: dict[str, str] = {}
    for name, value in properties:
        if name in named:
            raise _SyntaxError
        named[name] = value
    return _Result(method.partition("/")[0], result.lower(), named)


_EQUALS: Final = "\0="
"""The sign between names and values, which no text can be."""


def _statements(header: str) -> list[list[str]]:
    """Returns the words of each statement, without comments; signs in quotes are text."""
    if len(header) > _MOST_CHARS or "\0" in header:
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
    place = 0
    while place < len(header):
        match = _LEXEME.match(header, place)
        if match is None:
            raise _SyntaxError
        kind, text, place = match.lastgroup or "", match[0], match.end()
        if kind == "comment":
            place = _comment_end(header, place)
        yield ("word", _ESCAPE.sub(r"\1", text[1:-1])) if kind == "quoted" else (kind, text)


_LEXEME: Final = re.compile(
    r"(?P<space>[ \t\r\n]+)|(?P<end>;)|(?P<equals>=)|(?P<comment>\()"
    r'|"(?P<quoted>(?:[^"\\]++|\\.)*+)"|(?P<word>[^\s;="()\\]+)',
    re.DOTALL,
)
_SERVER: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:;|\s[0-9])")
"""Begin of a header whose server can be told, also where the rest is not well formed."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(r"[^()\\]+|\\.|[()]", re.DOTALL)


def _comment_end(header: str, place: int) -> int:
    """Returns the position behind the comment that began before `place`; they may be nested."""
    depth = 1
    while depth:
        match = _COMMENT.match(header, place)
        if match is None:
            raise _SyntaxError
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        place = match.end()
    return place
