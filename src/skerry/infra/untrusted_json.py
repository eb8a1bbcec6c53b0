"""Untrusted JSON: the exceptions of its decoder, and a limit of its depth."""

from typing import Any, Final

UNREADABLE: Final = (ValueError, RecursionError)
"""Exceptions of `msgspec` for bytes that are not JSON, not UTF-8, of a wrong type, or too deep."""
DEEPEST: Final = 64
"""Limit of nested objects and lists: recursive code needs several calls for each level."""


def is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Returns True when decoded JSON has more than `levels` nested objects and lists."""
    match value:
        case dict():
            return levels < 1 or any(is_deep(child, levels - 1) for child in value.values())
        case list():
            return levels < 1 or any(is_deep(child, levels - 1) for child in value)
    return False
