"""Content of HEARTBEAT.md, as far as it decides whether there is something to do (pure)."""

import re
from typing import Final

_EMPTY: Final = re.compile(r"(?:#.*|[-*+](?:\s{0,9}\[[ xX]?\])?|\d{1,9}[.)])?")
"""A line, stripped, that asks for nothing."""
_COMMENT: Final = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
"""A comment without an end hides the rest, as in HTML."""


def has_work(text: str) -> bool:
    """Returns whether HEARTBEAT.md names something: more than headings, comments, empty items."""
    return any(not _EMPTY.fullmatch(line.strip()) for line in _COMMENT.sub("", text).splitlines())
