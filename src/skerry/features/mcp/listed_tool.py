"""A tool as a server lists it: its text is limited and cleaned before a model reads it (pure)."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from skerry.policy.folding import visible
from skerry.policy.injection import scan

MAX_NAME: Final = 64
"""Limit of the names of tools in requests to models."""
MAX_DESCRIPTION: Final = 1024
MAX_PARAMETER_TEXT: Final = 512
"""Limit of the description of one parameter."""
MAX_SCHEMA: Final = 16_384
"""Limit of the schema of a tool, in bytes of JSON."""
MAX_DEPTH: Final = 16
_SERVER_NAME: Final = 128
_HASH: Final = 8
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")
_TEXTS: Final = frozenset({"description", "title", "$comment"})
_POISONS: Final = {
    "tag": re.compile(r"</?\s*(important|system|instructions?|secret|hidden)\s*>", re.IGNORECASE),
    "secrecy": re.compile(
        r"\b(do\s+not|don't|never|without)\s+"
        r"(mention|mentioning|tell|telling|inform|informing|reveal|revealing|show|showing)\b",
        re.IGNORECASE,
    ),
    "key-file": re.compile(r"~/\.\w|\bid_(rsa|ed25519)\b|/etc/(passwd|shadow)|\bmcp\.json\b"),
}
"""Patterns of descriptions that make a model read files, or hide from its owner what it does."""
_DROPPED: Final = frozenset({"$schema", "$id", "$comment"})


class UnusableToolError(Exception):
    """A listed tool cannot be offered; the message has the reason."""


class ListedTool(Struct, frozen=True):
    """A tool of a server, cleaned for a model."""

    name: str
    """Name that the server gives it."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""
    digest: str
    """SHA-256 of name, description, schemas and annotations as the server sent them."""
    declares_read_only: bool = False
    """True when the server declares that the tool changes nothing; it may lie."""
    suspicions: tuple[str, ...] = ()
    """Patterns of instructions to a model in the texts of the tool."""


def listed(fields: Mapping[str, Any]) -> ListedTool:
    """Returns the tool of an entry of `tools/list`.

    Raises:
        UnusableToolError: its name or schema exceeds a limit.
    """
    name = fields.get("name")
    if not isinstance(name, str) or not name or len(name) > _SERVER_NAME or visible(name) != name:
        raise UnusableToolError(f"its name {str(name)[:40]!r} is not valid")
    description = _cut(str(fields.get("description") or fields.get("title") or ""), MAX_DESCRIPTION)
    schema = fields.get("inputSchema")
    if not isinstance(schema, dict):
        raise UnusableToolError("its schema is not an object")
    parameters = _cleaned(schema, 0) | {"type": "object"}
    encoded = json.dumps(parameters, ensure_ascii=False)
    if len(encoded.encode(errors="replace")) > MAX_SCHEMA:
        raise UnusableToolError(f"its schema has more than {MAX_SCHEMA} bytes")
    annotations = fields.get("annotations")
    reads = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    texts = "\n".join((description, *_texts(parameters)))
    return ListedTool(name, description, parameters, _digest(fields), reads, suspicions(texts))


def suspicions(text: str) -> tuple[str, ...]:
    """Returns the names of patterns of instructions that a description of a tool does not need.

    The score alone is not enough: it also flags descriptions that tell when to use a tool.
    """
    own = [name for name, pattern in _POISONS.items() if pattern.search(text)]
    return tuple(dict.fromkeys([*own, *(name for name in scan(text).matches if name != "model")]))


def offered_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the names for models of a server's tools, by the server's names.

    A name that other characters, its length or its case would make ambiguous gets a hash, so that
    it does not depend on the other tools' order.
    """
    plain = {name: f"mcp_{server}_{_STRANGE.sub('_', name)}" for name in names}
    counts = Counter(text.lower() for text in plain.values())
    return {
        name: text
        if text.endswith(f"_{name}") and len(text) <= MAX_NAME and counts[text.lower()] == 1
        else _hashed(text, name)
        for name, text in plain.items()
    }


def _hashed(text: str, name: str) -> str:
    mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_HASH]
    return f"{text[: MAX_NAME - _HASH - 1]}_{mark}"


def _digest(fields: Mapping[str, Any]) -> str:
    keys = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
    content = json.dumps({key: fields.get(key) for key in keys}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _cut(text: str, limit: int) -> str:
    clean = visible(text).strip()
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def _cleaned(value: Any, depth: int) -> Any:
    """Returns a part of a schema without invisible characters and long texts."""
    if depth > MAX_DEPTH:
        raise UnusableToolError(f"its schema is nested deeper than {MAX_DEPTH}")
    match value:
        case dict():
            return {
                _key(key): _cut(part, MAX_PARAMETER_TEXT)
                if key in _TEXTS and isinstance(part, str)
                else _cleaned(part, depth + 1)
                for key, part in value.items()
                if key not in _DROPPED
            }
        case list():
            return [_cleaned(part, depth + 1) for part in value]
        case str():
            return visible(value)
        case _:
            return value


def _key(key: object) -> str:
    """Returns a key of a schema, which must stay as it is: a call has the names of parameters."""
    if not isinstance(key, str) or visible(key) != key:
        raise UnusableToolError("a key of its schema has invisible characters")
    return key


def _texts(value: Any) -> Iterable[str]:
    match value:
        case dict():
            for key, part in value.items():
                if key in _TEXTS and isinstance(part, str):
                    yield part
                else:
                    yield from _texts(part)
        case list():
            for part in value:
                yield from _texts(part)
