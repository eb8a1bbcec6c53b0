"""Changes values in the text of a JSON5 file; all other text is kept as it is."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from skerry.config import source
from skerry.config.paths import changes
from skerry.model.errors import ConfigError

_SPACE: Final = re.compile(r"\s+|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/", re.DOTALL)
_TEXT: Final = re.compile(r""""(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'""", re.DOTALL)
_WORD: Final = re.compile(r"""[^\s,:\[\]{}"'/]+""")
_BARE: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_CLOSING: Final = {"{": "}", "[": "]"}


class _NoSpanError(Exception):
    """The text cannot be edited in place; it has no message for people."""


class _Node(Struct):
    """A value in the text, from `start` to before `end`."""

    start: int
    end: int = 0
    parts: "list[_Part] | None" = None
    """Members of an object or a list; None for a plain value."""


class _Part(Struct, frozen=True):
    """A member of an object, or an element of a list; the key of an element is its number."""

    start: int
    key: str | int
    value: _Node
    comma: int | None
    """Position of the comma after it."""


class _Document(Struct):
    """The text, its style, and the changes made so far."""

    raw: str
    newline: str
    unit: str
    lines: bool
    bare: bool
    quote: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def changed(self) -> str:
        text, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            text += [self.raw[at:start], new]
            at = end
        return "".join([*text, self.raw[at:]])


def edited(raw: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Returns the text with the values of `after`; comments and style are kept.

    Args:
        raw: Text in JSON5.
        before: Values of the text.
        after: Values that the result is to have; the order of keys is ignored.

    Returns:
        None if the text cannot be scanned, or if the result would not have these values.

    """
    try:
        root = _Scanner(raw).document()
        document = _style(raw, root)
        _change(document, root, dict(before), dict(after))
        text = document.changed()
        if _same(source.parse(Path(), text), dict(after)):
            return text
    except (_NoSpanError, ConfigError, RecursionError):
        pass
    return None


class _Scanner:
    """Finds the positions of the values in a text that the JSON5 parser has accepted."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._at = 0

    def document(self) -> _Node:
        """Returns the root object of the text."""
        self._skip()
        root = self._value()
        self._skip()
        if self._at != len(self._raw) or root.parts is None:
            raise _NoSpanError
        return root

    def _value(self) -> _Node:
        node = _Node(self._at)
        if self._next() in _CLOSING:
            node.parts = self._parts(self._next())
        else:
            self._token()
        node.end = self._at
        return node

    def _parts(self, opening: str) -> list[_Part]:
        parts: list[_Part] = []
        self._at += 1
        self._skip()
        while self._next() != _CLOSING[opening]:
            start, key = self._at, self._key() if opening == "{" else len(parts)
            value = self._value()
            self._skip()
            comma = self._at if self._next() == "," else None
            if comma is not None:
                self._at += 1
                self._skip()
            elif self._next() != _CLOSING[opening]:
                raise _NoSpanError
            parts.append(_Part(start, key, value, comma))
        self._at += 1
        return parts

    def _key(self) -> str:
        token = self._token()
        self._skip()
        if self._next() != ":":
            raise _NoSpanError
        self._at += 1
        self._skip()
        if token[0] not in "\"'" and "\\" not in token:
            return token
        return next(iter(source.parse(Path(), f"{{{token}:0}}")))

    def _token(self) -> str:
        match = _TEXT.match(self._raw, self._at) or _WORD.match(self._raw, self._at)
        if match is None:
            raise _NoSpanError
        self._at = match.end()
        return match[0]

    def _next(self) -> str:
        return self._raw[self._at : self._at + 1]

    def _skip(self) -> None:
        while match := _SPACE.match(self._raw, self._at):
            self._at = match.end()


def _style(raw: str, root: _Node) -> _Document:
    """Returns the document; its style is that of its first keys and strings."""
    parts = list(_all_parts(root))
    keys = [raw[part.start] for part in parts if isinstance(part.key, str)]
    values = [raw[part.value.start] for part in parts]
    quotes = [char for char in (*values, *keys) if char in "\"'"]
    indents = [indent for part in root.parts or () if (indent := _indent(raw, part.start))]
    return _Document(
        raw,
        newline="\r\n" if "\r\n" in raw else "\n",
        unit=indents[0] if indents else "  ",
        lines="\n" in raw.strip() or not parts,
        bare=bool(keys) and keys[0] not in "\"'",
        quote=quotes[0] if quotes else '"',
    )


def _all_parts(node: _Node) -> Iterator[_Part]:
    for part in node.parts or ():
        yield part
        yield from _all_parts(part.value)


def _indent(raw: str, at: int) -> str | None:
    """Returns the white space before `at` on its line; None if the line has other text before."""
    line = raw[raw.rfind("\n", 0, at) + 1 : at]
    return line if not line.strip() else None


def _base(raw: str, at: int) -> str:
    """Returns the indentation of the line of `at`."""
    line = raw[raw.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _change(document: _Document, node: _Node, old: Any, new: Any) -> None:
    """Changes the value at `node` from `old` to `new`."""
    if _same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _change_object(document, node, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        _change_list(document, node, old, new)
    else:
        text = _value_text(document, new, _base(document.raw, node.start))
        document.edits.append((node.start, node.end, text))


def _change_object(
    document: _Document, node: _Node, old: dict[str, Any], new: dict[str, Any]
) -> None:
    parts = node.parts or []
    last = {part.key: part for part in parts}
    remaining = [part for part in parts if part.key in new]
    for key, part in last.items():
        if key in new:
            _change(document, part.value, old.get(str(key)), new[str(key)])
    added = [(key, value) for key, value in new.items() if key not in last]
    _fit(document, node, remaining, added)


def _change_list(document: _Document, node: _Node, old: list[Any], new: list[Any]) -> None:
    """Keeps the equal elements at the beginning and the end, and changes those between."""
    parts = node.parts or []
    if len(parts) != len(old):
        raise _NoSpanError
    shorter = min(len(old), len(new))
    head = _alike(old, new, shorter)
    tail = _alike(old[::-1], new[::-1], shorter - head)
    middle, values = parts[head : len(parts) - tail], new[head : len(new) - tail]
    if tail and len(values) > len(middle):
        middle, values = parts[head:], new[head:]
        tail = 0
    for part, value in zip(middle, values, strict=False):
        _change(document, part.value, old[int(part.key)], value)
    remaining = [*parts[:head], *middle[: len(values)], *parts[len(parts) - tail :]]
    if not tail:
        remaining = [*parts[:head], *middle[: len(values)]]
    _fit(document, node, remaining, [(None, element) for element in values[len(middle) :]])


def _alike(values: Sequence[Any], other_values: Sequence[Any], limit: int) -> int:
    """Returns the number of equal values at the beginning, at most `limit`."""
    count = 0
    while count < limit and _same(values[count], other_values[count]):
        count += 1
    return count


def _fit(
    document: _Document,
    node: _Node,
    remaining: list[_Part],
    added: Sequence[tuple[str | None, Any]],
) -> None:
    """Removes the parts that are not kept, appends the new ones, and corrects the commas."""
    parts = node.parts or []
    trailing = bool(parts) and parts[-1].comma is not None
    for part in parts:
        if part not in remaining:
            _remove(document, part)
    if remaining and added and remaining[-1].comma is None:
        document.edits.append((remaining[-1].value.end, remaining[-1].value.end, ","))
    elif remaining and not added and not trailing and remaining[-1].comma is not None:
        document.edits.append((remaining[-1].comma, remaining[-1].comma + 1, ""))
    if added:
        _add(document, node, added, comma="," if trailing else "")


def _remove(document: _Document, part: _Part) -> None:
    """Removes a part with its comma, and with its line if no other text is on the line."""
    raw, end = document.raw, part.value.end
    if part.comma is not None:
        if raw[end : part.comma].strip():
            document.edits.append((part.comma, part.comma + 1, ""))
        else:
            end = part.comma + 1
    start, line = part.start, raw[end:].partition("\n")
    indent = _indent(raw, start)
    if indent is None:
        start = len(raw[:start].rstrip(" \t"))
    elif line[1] and not line[0].strip() and start > len(indent):
        start -= len(indent) + 1
        start -= raw[start - 1 : start + 1] == "\r\n"
    document.edits.append((start, end, ""))


def _add(
    document: _Document, node: _Node, added: Sequence[tuple[str | None, Any]], *, comma: str
) -> None:
    """Inserts the new parts after the last part and its comments."""
    raw, inner = document.raw, document.raw[node.start + 1 : node.end - 1]
    base = _base(raw, node.start)
    indents = [
        found_indent
        for part in node.parts or ()
        if (found_indent := _indent(raw, part.start)) is not None
    ]
    indent = indents[0] if indents else base + document.unit
    lines = "\n" in inner or (not inner.strip() and document.lines)
    at = node.start + 1 + len(inner.rstrip())
    members = [_member(document, key, value, indent, lines=lines) for key, value in added]
    between = "," + document.newline + indent if lines else ", "
    before = document.newline + indent if lines else " " if inner.strip() else ""
    after = document.newline + base if lines and "\n" not in raw[at : node.end] else ""
    document.edits.append((at, at, before + between.join(members) + comma + after))


def _member(document: _Document, key: str | None, value: Any, indent: str, *, lines: bool) -> str:
    text = _value_text(document, value, indent, lines=lines)
    return text if key is None else f"{_key_text(document, key)}: {text}"


def _key_text(document: _Document, key: str) -> str:
    return key if document.bare and _BARE.fullmatch(key) else _quoted(document, key)


def _quoted(document: _Document, text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    if document.quote == '"':
        return quoted
    return "'" + quoted[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def _value_text(document: _Document, value: Any, base: str, *, lines: bool = True) -> str:
    """Returns the text of a new value, in the style of the document."""
    match value:
        case str():
            return _quoted(document, value)
        case dict() if value:
            parts: list[tuple[str | None, Any]] = list(value.items())
            opening = "{"
        case list() if value:
            parts = [(None, element) for element in value]
            opening = "["
        case _:
            return json.dumps(value)
    closing, inner = _CLOSING[opening], base + document.unit
    if not (lines and document.lines) or (
        opening == "[" and not any(isinstance(element, dict | list) for element in value)
    ):
        members = [_member(document, key, element, inner, lines=False) for key, element in parts]
        return opening + ", ".join(members) + closing
    members = [inner + _member(document, key, element, inner, lines=True) for key, element in parts]
    return document.newline.join([opening, f",{document.newline}".join(members), base + closing])


def _same(value: Any, new_value: Any) -> bool:
    return next(changes(value, new_value), None) is None
