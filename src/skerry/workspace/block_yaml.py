"""Reads the subset of YAML that front matter of skills uses: nested keys, lists, plain values.

Every scalar is a text; pydantic converts it. Anchors, tags, merged keys and documents in a document
are refused, so that no value is read otherwise than a person sees it. Time is linear in the text.
"""

import re
from typing import Any, Final

MAX_DEPTH: Final = 12
_KEY: Final = re.compile(
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'#&*!|>%@`{}\[\],][^#\n]*?)[ \t]*:(?:[ \t]+(.*))?"
)
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#.*$")
_FORBIDDEN: Final = ("&", "*", "!", "|", ">", "%", "@", "`")
_FLOW_ITEM: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[^\"'{}\[\]&*!][^\"'{}\[\]]*")


class BlockYamlError(Exception):
    """The text is not in the subset; the message names the line."""


def parse_block_yaml(text: str) -> Any:
    """Returns the value of a text: nested dicts and lists of texts; None for an empty text.

    Raises:
        BlockYamlError: a line is not in the subset.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1)]
    kept = [
        (number, len(line) - len(line.lstrip(" ")), _COMMENT.sub("", line).strip())
        for number, line in lines
    ]
    reader = _Reader([line for line in kept if line[2]])
    if not reader.lines:
        return None
    value = reader.block(reader.lines[0][1], 0)
    if reader.at < len(reader.lines):
        raise reader.error("is indented differently from the lines before")
    return value


class _Reader:
    """Position in the lines: number, indentation and text of each."""

    def __init__(self, lines: list[tuple[int, int, str]]) -> None:
        self.lines = lines
        self.at = 0

    def error(self, reason: str) -> BlockYamlError:
        number, _, text = self.lines[min(self.at, len(self.lines) - 1)]
        return BlockYamlError(f"line {number} ({text[:60]!r}) {reason}")

    def block(self, indent: int, depth: int) -> Any:
        """Returns the mapping or list whose lines have this indentation."""
        if depth > MAX_DEPTH:
            raise self.error(f"is nested more than {MAX_DEPTH} times")
        if _is_item(self.lines[self.at][2]):
            return self._items(indent, depth)
        return self._mapping(indent, depth)

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while self.at < len(self.lines) and self.lines[self.at][1] == indent:
            text = self.lines[self.at][2]
            match = _KEY.fullmatch(text)
            if match is None or _is_item(text):
                break
            key = _unquoted(match[1])
            if key in values:
                raise self.error("repeats a key")
            values[key] = self._value((match[2] or "").strip(), indent, depth, is_key=True)
        if not values:
            raise self.error("is not `key: value`")
        return values

    def _items(self, indent: int, depth: int) -> list[Any]:
        items: list[Any] = []
        while self.at < len(self.lines) and self.lines[self.at][1] == indent:
            number, _, text = self.lines[self.at]
            if not _is_item(text):
                break
            rest = text[1:].lstrip(" ")
            if _KEY.fullmatch(rest):
                # The first key of a mapping stands beside the dash; its others are below it.
                inner = indent + len(text) - len(rest)
                self.lines[self.at] = (number, inner, rest)
                items.append(self.block(inner, depth + 1))
            else:
                items.append(self._value(rest, indent, depth, is_key=False))
        return items

    def _value(self, text: str, indent: int, depth: int, *, is_key: bool) -> Any:
        """Returns the value on the present line, or the block below it."""
        if text:
            value = self._scalar(text)
            self.at += 1
            return value
        self.at += 1
        if self.at < len(self.lines):
            _, inner, following = self.lines[self.at]
            if inner > indent or (is_key and inner == indent and _is_item(following)):
                return self.block(inner, depth + 1)
        return ""

    def _scalar(self, text: str) -> Any:
        if text.startswith("["):
            if not text.endswith("]"):
                raise self.error("begins a list that it does not end")
            inner = text[1:-1].strip()
            items = [item.strip() for item in inner.split(",")] if inner else []
            if not all(map(_FLOW_ITEM.fullmatch, items)):
                raise self.error("has a list that cannot be read")
            return [_unquoted(item) for item in items]
        if text.startswith(("{", *_FORBIDDEN)):
            raise self.error("has a value of an unknown form")
        return _unquoted(text)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
