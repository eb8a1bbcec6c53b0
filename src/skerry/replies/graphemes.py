"""Positions at which a text may be cut without splitting a visible character (pure).

Implements a simplified form of Unicode annex 29: characters that it joins are never separated, and
some rare pairs that it separates (after a joiner, after a virama) are kept together too.
"""

import unicodedata
from typing import Final

from skerry.model.outbound import TextUnit

_FIRST_MARK: Final = "\u0300"  # below it only CR LF is joined
_JOINER: Final = "\u200d"
_JOINING: Final = frozenset({"Mn", "Me", "Mc"})
_CONTROL: Final = frozenset({"Cc", "Zl", "Zp"})
_VIRAMA: Final = 9  # its canonical combining class
_BMP: Final = 0x10000
_TWO_BYTES: Final = 0x80
_THREE_BYTES: Final = 0x800


def size(text: str, unit: TextUnit) -> int:
    """Returns the length of the text in the unit."""
    if unit is TextUnit.CHARACTERS or text.isascii():
        return len(text)
    return sum(_weight(char, unit) for char in text)


def reach(text: str, limit: int, unit: TextUnit) -> int:
    """Returns the number of first characters of the text that fit into `limit` units."""
    window = text[: max(limit, 0)]
    if unit is TextUnit.CHARACTERS or window.isascii():
        return len(window)
    room = limit
    for index, char in enumerate(window):
        room -= _weight(char, unit)
        if room < 0:
            return index
    return len(window)


def is_boundary(text: str, index: int) -> bool:
    """Returns whether no visible character spans the position `index`."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before < _FIRST_MARK and after < _FIRST_MARK:
        return (before, after) != ("\r", "\n")
    if unicodedata.category(before) in _CONTROL:
        return True
    if _is_regional(before) and _is_regional(after):
        return _regionals_before(text, index) % 2 == 0
    return not (
        _joins_before(after)
        or before == _JOINER
        or _is_prepended(before)
        or (unicodedata.combining(before) == _VIRAMA and after.isalpha())
        or _is_hangul_pair(ord(before), ord(after))
    )


def last_boundary(text: str, end: int) -> int:
    """Returns the last position up to `end` where the text may be cut; `end` without one."""
    index = end
    while index > 0 and not is_boundary(text, index):
        index -= 1
    return index or end


def _weight(character: str, unit: TextUnit) -> int:
    code = ord(character)
    if unit is TextUnit.UTF16:
        return 1 if code < _BMP else 2
    return 1 + (code >= _TWO_BYTES) + (code >= _THREE_BYTES) + (code >= _BMP)


def _joins_before(character: str) -> bool:
    """Returns whether the character belongs to the one before it."""
    code = ord(character)
    return (
        unicodedata.category(character) in _JOINING
        or character in {_JOINER, "\u200c", "\uff9e", "\uff9f"}
        or 0x1F3FB <= code <= 0x1F3FF  # noqa: PLR2004 - skin colours
        or 0xE0020 <= code <= 0xE007F  # noqa: PLR2004 - tags, as in the flag of Scotland
    )


def _is_prepended(character: str) -> bool:
    """Returns whether the character belongs to the one after it (Arabic number signs)."""
    return "\u0600" <= character <= "\u0605" or character in "\u06dd\u070f\u08e2\U000110bd"


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals_before(text: str, index: int) -> int:
    start = index
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return index - start


def _is_hangul_pair(before: int, after: int) -> bool:
    """Returns whether two Hangul characters belong to one syllable."""
    lead, vowel, tail = _hangul(before)
    next_lead, next_vowel, next_tail = _hangul(after)
    if lead and not (vowel or tail):
        return next_lead or next_vowel
    if vowel and not tail:
        return (next_vowel and not next_lead) or (next_tail and not next_lead)
    return tail and next_tail and not (next_lead or next_vowel)


def _hangul(code: int) -> tuple[bool, bool, bool]:
    """Returns whether a character has a leading consonant, a vowel, and a trailing consonant."""
    if 0xAC00 <= code <= 0xD7A3:  # noqa: PLR2004 - whole syllables, every 28th without a tail
        return True, True, (code - 0xAC00) % 28 != 0
    return (
        0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C,  # noqa: PLR2004
        0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6,  # noqa: PLR2004
        0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB,  # noqa: PLR2004
    )
