"""Removes from a text the passages that a memory inserted before it (pure)."""

import re
from typing import Final

_RECALLED: Final = re.compile(
    r"<(memwal-memories|relevant-memories|recalled-memory|recalled-memories|memory-context)\b[^<>]*+>"
    r".*?(?:</\1\b[^<>]*+>|\Z)",
    re.DOTALL | re.IGNORECASE,
)


def unrecalled(text: str) -> str:
    """Returns the text without the passages that a memory inserted before it."""
    return _RECALLED.sub("", text)
