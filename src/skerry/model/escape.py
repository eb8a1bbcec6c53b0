"""Text of a model as a person must see it before a decision: nothing in it is hidden (pure)."""

import unicodedata
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
MOST_TEXT: Final = 65_536
"""Characters that are shown."""


def escaped(text: str) -> str:
    """Returns the text on one line, with an escape for each character that is not seen as itself.

    Those are control and format characters, separators, every space but U+0020, and characters that
    no font has: unassigned, private and surrogate ones.
    """
    return "".join(_escape(character) for character in text[:MOST_TEXT])


def _escape(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _HIDDEN:
        return character
    return _SHORT.get(character) or f"\\u{{{ord(character):x}}}"
