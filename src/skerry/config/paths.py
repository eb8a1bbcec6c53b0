"""Key paths in a configuration tree, such as `agents.list[0].id`: parse, read, write, compare."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from skerry.model.errors import ConfigError

KeyPath = tuple[str | int, ...]

MISSING: Final = object()
"""Result of `lookup` if the key path does not exist."""
MAX_DEPTH: Final = 64

_PART: Final = re.compile(
    r"""\.?(?:([^.\[\]"']+)|\[(\d{1,5})\]|\[("(?:[^"\\]|\\.)*")\]|\['([^']+)'\])""", re.DOTALL
)


def parse_key_path(text: str) -> KeyPath:
    """Returns the key path of a text such as `a.b[0]` or `a["b.c"]`.

    Raises:
        ConfigError: the text is not a key path.
    """
    key_path: list[str | int] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or (text[at] == "." and not key_path) or len(key_path) == MAX_DEPTH:
            raise _invalid_path(text)
        key_path.append(_part(text, match))
        at = match.end()
    if not key_path:
        raise _invalid_path(text)
    return tuple(key_path)


def _part(text: str, match: re.Match[str]) -> str | int:
    if match[2]:
        return int(match[2])
    try:
        return str(json.loads(match[3], strict=False)) if match[3] else match[1] or match[4]
    except ValueError:
        raise _invalid_path(text) from None


def show_key_path(key_path: KeyPath) -> str:
    """Returns the text of a key path, which `parse_key_path` parses again."""
    text = ""
    for part in key_path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and not any(char in part for char in ".[]\"'"):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def lookup(tree: Any, key_path: KeyPath) -> Any:
    """Returns the value at the key path, or `MISSING`."""
    for part in key_path:
        match tree, part:
            case dict(), str() if part in tree:
                tree = tree[part]
            case list(), int() if part < len(tree):
                tree = tree[part]
            case _:
                return MISSING
    return tree


def replaced(tree: Any, key_path: KeyPath, value: Any) -> Any:
    """Returns the tree with `value` at the key path; `MISSING` removes it.

    Missing parent sections are created. The argument is not changed.

    Raises:
        ConfigError: a parent is no section, or no list with such an index.
    """
    if not key_path:
        return value
    first, remaining = key_path[0], key_path[1:]
    if isinstance(first, int):
        return _in_list(tree, first, remaining, value)
    if tree is MISSING or tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise _refusal(f"{first!r} is not allowed there: the parent is not a section.")
    if value is MISSING and lookup(tree, (first,)) is MISSING:
        return tree
    inner = replaced(tree.get(first, MISSING), remaining, value)
    if inner is MISSING:
        return {key: member for key, member in tree.items() if key != first}
    return {**tree, first: inner}


def _in_list(tree: Any, number: int, remaining: KeyPath, value: Any) -> Any:
    if tree is MISSING:
        tree = []
    if not isinstance(tree, list):
        raise _refusal(f"[{number}] is not allowed there: the parent is not a list.")
    if number > len(tree) or (number == len(tree) and value is MISSING):
        raise _refusal(f"[{number}] is beyond the end of the list, which has {len(tree)}.")
    inner = replaced(tree[number] if number < len(tree) else MISSING, remaining, value)
    elements = [] if inner is MISSING else [inner]
    return [*tree[:number], *elements, *tree[number + 1 :]]


def changes(before: Any, after: Any, key_path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yields the deepest key paths at which two trees differ.

    A list whose length changed is one key path.
    """
    inside = _inside(before, after)
    if inside is not None:
        for part, old, new in inside:
            yield from changes(old, new, (*key_path, part))
    elif type(before) is not type(after) or before != after:
        yield key_path


def _inside(before: Any, after: Any) -> list[tuple[str | int, Any, Any]] | None:
    """Returns key, old and new value of each member of two sections or of two equally long lists.

    None if they can only be compared as a whole.
    """
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [(n, old, new) for n, (old, new) in enumerate(zip(before, after, strict=True))]
    old = {} if before is MISSING and after else before
    new = {} if after is MISSING and before else after
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return None
    return [(key, old.get(key, MISSING), new.get(key, MISSING)) for key in {**old, **new}]


def within(key_path: KeyPath, pattern: Sequence[str]) -> bool:
    """Returns whether the key path is at or below `pattern`; `*` matches any one part."""
    return len(key_path) >= len(pattern) and all(
        want in {"*", part} for part, want in zip(key_path, pattern, strict=False)
    )


def _invalid_path(text: str) -> ConfigError:
    error = ConfigError(f"{text!r} is not a key path of the configuration.")
    error.remedy = "Write it as agents.defaults.model or agents.list[0].name."
    return error


def _refusal(message: str) -> ConfigError:
    error = ConfigError(message)
    error.remedy = "`skerry config get` shows the present values."
    return error


def without_empty(tree: Any) -> Any:
    """Returns the tree without sections that have become empty."""
    if isinstance(tree, list):
        return [without_empty(element) for element in tree]
    if not isinstance(tree, dict):
        return tree
    members = {key: without_empty(value) for key, value in tree.items()}
    return {key: value for key, value in members.items() if value != {}}
