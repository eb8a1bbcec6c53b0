"""How deep the objects and lists of JSON stand in each other."""

from typing import Any, Final

DEEPEST: Final = 64
"""Levels that are taken from outside: who walks through a value needs some calls for each."""


def is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether the value has more than so many levels, itself included."""
    match value:
        case dict():
            return levels < 1 or any(is_deep(one, levels - 1) for one in value.values())
        case list():
            return levels < 1 or any(is_deep(one, levels - 1) for one in value)
    return False
