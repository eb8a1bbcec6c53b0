"""JSON that others wrote: what reading it may raise, and how deep it may be."""

from typing import Any, Final

UNREADABLE: Final = (ValueError, RecursionError)
"""Exceptions of `msgspec` for bytes that are not JSON, not UTF-8, of another type, or too deep."""
DEEPEST: Final = 64
"""Levels of objects and lists that are kept: to walk through each takes some calls."""


def is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Returns whether the value has more than so many levels, itself included."""
    match value:
        case dict():
            return levels < 1 or any(is_deep(child, levels - 1) for child in value.values())
        case list():
            return levels < 1 or any(is_deep(child, levels - 1) for child in value)
    return False
