"""Finds the certain ends of sentences for erasing, in any language (pure).

A full stop after an abbreviation, an initial or a number does not end a sentence, nor does one
before a small letter or a digit. If an end is found too late, a neighbouring sentence is erased
too, which the preview shows; if it is found too early, a part of a secret remains.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from skerry.model.abbreviations import ABBREVIATIONS, ANSWERS

_STOP: Final = re.compile(
    r"[\n\r\u2028\u2029]"
    r"|(?<![.!?…])[.!?…]++[\"'\u2019\u201d»)\]]*+(?=\s|\Z)"
    r"|[\u3002\uff01\uff1f]"
)
_LINE_ENDS: Final = frozenset("\n\r\u2028\u2029")
_IDEOGRAPHIC: Final = frozenset("\u3002\uff01\uff1f")
_MARKUP: Final = frozenset("\"'\u201c\u201d\u201e«»\u2018\u2019\u201a([*_`~¿¡")
"""Characters that may precede the first letter of a sentence."""
_LOOK: Final = 40
"""Characters before and after a full stop that are examined."""
_SHORT: Final = 3
"""Maximum letters of a capitalised word that counts as an abbreviation without being listed."""
_ORDINAL: Final = 2
"""Maximum digits of a number that may be followed by a month in the next line."""
_CONSONANTS: Final = 5
"""Maximum letters of an abbreviation without vowels: `bzgl`, `Blvd`."""
_ROMAN: Final = re.compile(r"[IVXLCDM]+")
_BLOCK: Final = re.compile(r"[ \t]*(?:[-*+>#|]|\d+[.)]|```|~~~|$)")
"""Beginning of a line of Markdown that does not continue the previous line."""
_JOINED: Final = ("str", "pl", "gasse", "ul")
"""Endings of abbreviated street names: `Hauptstr.`"""
_VOWELS: Final = frozenset("aeiouy")


def ends(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yields the ends of sentences and lines between two positions, each as start and end."""
    # The pattern reads one more character, so that `high` is not taken for the end of the text.
    for match in _STOP.finditer(text, low, min(len(text), high + 1)):
        begin, end = match.span()
        if end > high:
            return
        if text[begin] in _LINE_ENDS:
            if not _goes_on(text, begin, end):
                yield begin, end
        elif text[begin] in _IDEOGRAPHIC or _is_end(text, begin, end):
            yield begin, end


def _goes_on(text: str, begin: int, end: int) -> bool:
    """Returns whether a line that was broken after an abbreviation continues in the next line."""
    if text[begin] == "\r" and text[end : end + 1] == "\n":
        end += 1
    elif text[begin] == "\n" and text[begin - 1 : begin] == "\r":
        begin -= 1
    stop = begin
    while stop and begin - stop < _LOOK and text[stop - 1] in " \t":
        stop -= 1
    if text[stop - 1 : stop] != "." or not _abbreviates(text, stop - 1, at_line_end=True):
        return False
    following = text[end : end + _LOOK].split("\n", 1)[0].split("\r", 1)[0]
    return _BLOCK.match(following) is None


def _is_end(text: str, begin: int, end: int) -> bool:
    """Returns whether the punctuation certainly ends a sentence."""
    near = text[end : end + _LOOK]
    following = near.lstrip()
    breaks = any(char in _LINE_ENDS for char in near[: len(near) - len(following)])
    first = next((char for char in following if char not in _MARKUP), "")
    if first and not breaks and (first.islower() or first.isdigit()):
        return False
    stop = text[begin:end].rstrip("\"'\u2019\u201d»)]")
    if stop == ".":
        return not _abbreviates(text, begin)
    return not first or breaks or "!" in stop or "?" in stop


def _abbreviates(text: str, stop: int, *, at_line_end: bool = False) -> bool:
    """Returns whether the word before a full stop may be an abbreviation, or is a number.

    At the end of a line, which is a sign of an end too, only likely abbreviations count.
    """
    begin = stop
    while begin and stop - begin < _LOOK and _is_of_word(text[begin - 1]):
        begin -= 1
    word = unicodedata.normalize("NFC", text[begin:stop]).strip(".-'\u2019/")
    if any(char.isdigit() for char in word):
        return not at_line_end or len(word) <= _ORDINAL
    if "." in word:
        return True
    last = re.split(r"[-'\u2019/]", word)[-1]
    if not last:
        return False
    folded = last.casefold()
    letters = set(unicodedata.normalize("NFD", folded))
    return (
        len(last) == 1
        or (len(last) <= _SHORT and last[0].isupper() and folded not in ANSWERS and not at_line_end)
        or folded in ABBREVIATIONS
        or folded.endswith(_JOINED)
        or _ROMAN.fullmatch(last) is not None
        or (
            len(last) <= _CONSONANTS
            and all("LATIN" in unicodedata.name(char, "") for char in last)
            and not letters & _VOWELS
        )
    )


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char in ".-'\u2019/" or unicodedata.combining(char) > 0
