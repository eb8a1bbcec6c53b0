"""Escapes text of a model for a person's decision, so that no character is invisible (pure)."""

import unicodedata
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
MAX_TEXT: Final = 65_536
"""Maximum characters that are shown."""


def escaped(text: str) -> str:
    """Returns the text on one line, with an escape for each character that is not visible.

    These are control and format characters, separators, every space but U+0020, and characters that
    no font has: unassigned, private and surrogate ones.
    """
    return "".join(_escape(character) for character in text[:MAX_TEXT])


def _escape(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _HIDDEN:
        return character
    return _SHORT.get(character) or f"\\u{{{ord(character):x}}}"
