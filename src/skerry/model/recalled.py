"""Takes out of a text what a memory put before it (pure)."""

import re
from typing import Final

_RECALLED: Final = re.compile(
    r"<(memwal-memories|relevant-memories|recalled-memory|recalled-memories|memory-context)\b[^<>]*+>"
    r".*?(?:</\1\b[^<>]*+>|\Z)",
    re.DOTALL | re.IGNORECASE,
)


def unrecalled(text: str) -> str:
    """Returns the text without what a memory put before it."""
    return _RECALLED.sub("", text)
