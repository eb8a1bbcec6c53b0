"""Decides from the content of HEARTBEAT.md whether there is something to do (pure)."""

import re
from typing import Final

_EMPTY: Final = re.compile(r"(?:#.*|[-*+](?:\s{0,9}\[[ xX]?\])?|\d{1,9}[.)])?")
"""A stripped line without a task."""
_COMMENT: Final = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
"""A comment; one without an end hides the rest of the file, as in HTML."""


def has_work(text: str) -> bool:
    """Returns whether HEARTBEAT.md has more than headings, comments and empty items."""
    return any(not _EMPTY.fullmatch(line.strip()) for line in _COMMENT.sub("", text).splitlines())
