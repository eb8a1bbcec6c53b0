"""Cuts a text into passages at paragraphs, lines and sentences, with line numbers (pure)."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TOKEN: Final = 4
"""Assumed characters of a token."""
MIN_SIZE: Final = 16
MAX_SIZE: Final = 8192

# A sentence ends at a stop with its closing quotes, before a space; in Han and kana without a
# space. The lookbehind keeps it linear: without it a long run of stops is tried from each of them.
_SENTENCE: Final = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+\s++|[。！？]++[”’」』）]*+\s*+"  # noqa: RUF001 - they are meant
)
_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s|\s*\*\*[^*]+\*\*:?\s*$")
_JOINED: Final = frozenset("\u200d\ufe0e\ufe0f") | {chr(c) for c in range(0x1F3FB, 0x1F400)}
"""Characters that modify the one before: joiner, variation selector, skin tone."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a text: `text[start:end]`."""

    text: str
    start_line: int
    """First line, from 1."""
    end_line: int
    """Last line, included."""
    start: int
    """Offset in characters."""
    end: int
    """Offset after its last character."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Smallest part of a text, which is not cut."""

    start: int
    end: int
    heading: bool = False
    blank: bool = False


def chunks(text: str, *, size: int = 256, overlap: int = 32) -> list[Chunk]:
    """Returns chunks of at most `size` tokens; each begins with the end of the one before it.

    Together they contain every character except white space. They overlap by up to `overlap` tokens
    of whole sentences or lines. A line is cut at the ends of sentences, a sentence longer than a
    chunk between words, a word between characters. A heading stays with the text after it. Linear
    in the text.

    Raises:
        ValueError: the size is not 16 to 8192, or the overlap exceeds half of it.
    """
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise ValueError(f"the chunk size {size} is not {MIN_SIZE} to {MAX_SIZE} tokens")
    if not 0 <= overlap <= size // 2:
        raise ValueError(f"the overlap {overlap} is not 0 to {size // 2}, half of the chunk size")
    limit = size * TOKEN
    if len(text) <= limit:
        spans = [(0, len(text))]
    else:
        spans = _packed(list(_units(text, limit)), limit, overlap * TOKEN)
    begins = [0, *(match.end() for match in re.finditer("\n", text))]
    result: list[Chunk] = []
    for begin, end in spans:
        chunk = _chunk(text, begin, end, begins)
        # Skips a span that has only blank lines beside its overlap.
        if chunk is not None and (not result or chunk.end > result[-1].end):
            result.append(chunk)
    return result


def _chunk(text: str, begin: int, end: int, begins: list[int]) -> Chunk | None:
    """Returns the span as a chunk without leading blank lines and trailing white space."""
    part = text[begin:end].rstrip()
    if not part:
        return None
    blank = len(part) - len(part.lstrip())
    skipped = part.rfind("\n", 0, blank) + 1  # keeps the indentation of the first line
    start, end = begin + skipped, begin + len(part)
    return Chunk(
        part[skipped:], bisect_right(begins, start), bisect_right(begins, end - 1), start, end
    )


def _packed(units: list[_Unit], limit: int, shared: int) -> list[tuple[int, int]]:
    """Returns the spans of the chunks: as many units as fit, then again from the shared ones."""
    spans: list[tuple[int, int]] = []
    first, count = 0, len(units)
    while True:
        last = first + 1  # exclusive
        while last < count and units[last].end - units[first].start <= limit:
            last += 1
        if last == count:
            return [*spans, (units[first].start, units[-1].end)]
        last = _before_heading(units, first, last)
        spans.append((units[first].start, units[last - 1].end))
        begin = last
        while begin - 1 > first and units[last - 1].end - units[begin - 1].start <= shared:
            begin -= 1
        while units[last].end - units[begin].start > limit:
            begin += 1
        first = begin


def _before_heading(units: list[_Unit], first: int, last: int) -> int:
    """Returns the end of the chunk, exclusive, without headings at its end."""
    end = last
    while end - 1 > first and (units[end - 1].heading or units[end - 1].blank):
        end -= 1
        if units[end].heading:
            last = end
    return last


def _units(text: str, limit: int) -> Iterator[_Unit]:
    for line in re.finditer(r"[^\n]*\n|[^\n]+", text):
        begin, end = line.span()
        line_text = line[0]
        if not line_text.strip():
            yield from (_Unit(*span, blank=True) for span in _cut(text, begin, end, limit))
        elif len(line_text) <= limit and _HEADING.match(line_text):
            yield _Unit(begin, end, heading=True)
        else:
            for stop in [*(match.end() for match in _SENTENCE.finditer(text, begin, end)), end]:
                yield from (_Unit(*span) for span in _cut(text, begin, stop, limit))
                begin = stop


def _cut(text: str, begin: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Yields the span in parts of at most `limit`, cut between words, or else characters."""
    while end - begin > limit:
        at = begin + limit
        space = max(text.rfind(character, begin + limit // 2, at) for character in " \t\u3000")
        if space >= 0:
            at = space + 1
        else:
            while at > begin + limit // 2 and _belongs(text[at]):
                at -= 1
            at -= text[at - 1] == "\u200d"
        yield begin, at
        begin = at
    if end > begin:
        yield begin, end


def _belongs(char: str) -> bool:
    """Returns whether the character is part of the one before it."""
    return char in _JOINED or unicodedata.category(char).startswith("M")
