"""Fenced code in Markdown, line by line (pure)."""

import re
from typing import Final

from msgspec import Struct

FENCE_START: Final = re.compile(r"[ \t]{0,3}(?:`{3}|~{3})")
"""Start of a line that may begin or end a fence. Matches at most six characters."""
_FENCE: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})([^\n]*)")


class Fence(Struct, frozen=True):
    """An open fence. `opening` is its first line, `closing` a line that ends it."""

    opening: str
    closing: str


def after(line: str, fence: Fence | None) -> Fence | None:
    """Returns the fence that is open after a line, given the fence that was open before it.

    Accepts an indent of any width, because models indent fences in lists.
    """
    match = _FENCE.match(line)
    if match is None:
        return fence
    indent, marker, info = match.groups()
    if fence is None:
        if marker[0] == "`" and "`" in info:
            return None  # code within a line
        return Fence(line.rstrip(), indent + marker)
    closing = fence.closing.lstrip()
    ends = marker[0] == closing[0] and len(marker) >= len(closing) and not info.strip()
    return None if ends else fence
