"""Removes case and accents from text (pure)."""

import re
import unicodedata
from typing import Final

_MARKS: Final = re.compile("[\u0300-\u036f\u064b-\u065f\u0670\u0640]")
"""Accents of Latin, Greek and Cyrillic; vowel signs and tatweel of Arabic."""


def plain(text: str) -> str:
    """Returns the text without case and accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", parts))
