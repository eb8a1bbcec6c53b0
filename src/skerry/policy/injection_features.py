"""Features of a text for the detector of injected instructions (pure).

Each feature is a string that is hashed to one of 32,768 buckets. A text is cut into segments:
lines, sentences, cells. Features are words and pairs of words, the first words of each segment,
classes of words (`injection_words.txt`) and their pairs within a segment, and the position of a
request in a document of another kind. The time is linear in the text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import crc32

from msgspec import Struct

from skerry.policy.folding import FoldedText

BUCKETS: Final = 1 << 15
_WORDS: Final = "injection_words.txt"
_TOKEN: Final = re.compile(r"[a-z']+|[0-9]+|[^\W\d_]+|[^\w\s]")
_SEGMENT: Final = re.compile(
    r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|[|{}<>]+|(?<=[:;])\s+|\s{3,}|\s--\s"
    r"|['\"](?=[A-Z ])|#\s*"
)
_ADDRESS: Final = re.compile(r"https?://|www\.|\w@\w|\.com\b")
_CJK: Final = 0x2E80
_LONG: Final = 250
_LONE_LINES: Final = 2
_PLURAL: Final = 5
_GERUND: Final = 6
_MIN_SEGMENTS: Final = 4
_WIDTH: Final = 12
"""Number of words of the first and the last segment that are additional features."""
_NGRAMS: Final = 10.0
_CLASSES: Final = 7.5
"""Norms of the two groups of features, so that the length of a text has no effect."""
_EMPTY: Final[tuple[str, ...]] = ()


@cache
def _classes() -> dict[str, tuple[str, ...]]:
    """Returns the classes of each word; the file is read once."""
    classes: dict[str, list[str]] = {}
    name = ""
    for line in Path(__file__).with_name(_WORDS).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, colon, words = line.partition(": ")
        if colon and not line.startswith(" "):
            name, line = head, words  # noqa: PLW2901 - the words behind the name
        for word in line.split():
            classes.setdefault(word, []).append(name)
    return {word: tuple(sorted(set(names))) for word, names in classes.items()}


def _class_of(token: str, classes: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    names = classes.get(token)
    if names is None and len(token) > _PLURAL:
        names = classes.get(token[:-1]) if token[-1] == "s" else None
        if names is None and len(token) > _GERUND and token.endswith("ing"):
            names = classes.get(token[:-3]) or classes.get(token[:-3] + "e")
    return names or _EMPTY


def _tokens(segment: str) -> list[str]:
    """Returns the words; a run of digits is `0`; scripts without spaces are split into pairs."""
    tokens: list[str] = []
    for token in _TOKEN.findall(segment.lower()):
        if token.isascii():
            tokens.append("0" if token[0].isdigit() else token)
        elif ord(token[0]) >= _CJK:
            tokens += [token[index : index + 2] for index in range(max(1, len(token) - 1))]
        else:
            tokens.append(token)
    return tokens


class TextSegment(Struct, frozen=True):
    """A part of a text: its line, and its position among the parts of that line."""

    text: str
    line: int
    index: int
    count: int
    """Number of parts of its line."""


def features(folded: FoldedText, marks: Iterable[str]) -> dict[int, float]:
    """Returns the value of each bucket.

    Args:
        folded: The text, at most a few thousand characters.
        marks: Names of the patterns that match it.

    """
    lines = [line.strip() for line in "\n".join((folded.text, *folded.decoded)).split("\n")]
    lines = [line for line in lines if line]
    is_row = [line.count("|") > 1 for line in lines]
    segments = list(_segments(lines))
    shape = _shape(lines, segments, is_table=sum(is_row) > 1)
    ngrams: set[str] = set()
    dense: dict[str, float] = {f"shape {shape}": 1.0}
    for segment in segments:
        tokens = _tokens(segment.text)
        if not tokens:
            continue
        row = shape == "T" and is_row[segment.line]
        _segment(segment.text, tokens, "R" if row else shape, ngrams, dense)
        if shape != "S" and not row:
            _placed(segment, tokens, shape, len(lines), ngrams, dense)
    values: dict[int, float] = {}
    _add(values, ngrams, _NGRAMS / max(len(ngrams), 1) ** 0.5)
    scale = _CLASSES / max(len(dense), 1) ** 0.5
    for name, value in dense.items():
        _add(values, (name,), scale * value)
    _add(values, (f"hint {hint}" for hint in folded.hints), 2.0)
    _add(values, (f"mark {mark}" for mark in marks), 1.0)
    return values


def _segments(lines: Sequence[str]) -> Iterator[TextSegment]:
    for number, line in enumerate(lines):
        parts = [part.strip() for part in _SEGMENT.split(line) if part and part.strip()]
        for index, part in enumerate(parts):
            yield TextSegment(part, number, index, len(parts))


def _shape(lines: Sequence[str], segments: Sequence[TextSegment], *, is_table: bool) -> str:
    """Returns `T` for a table, `D` for a document, `S` for a short text."""
    if is_table:
        return "T"
    is_long = sum(map(len, lines)) + len(lines) >= _LONG and len(segments) >= _MIN_SEGMENTS
    return "D" if is_long else "S"


def _placed(
    segment: TextSegment,
    tokens: Sequence[str],
    shape: str,
    lines: int,
    ngrams: set[str],
    dense: dict[str, float],
) -> None:
    """Adds the features of a segment that depend on its position in a document."""
    is_last = segment.line == lines - 1 and segment.index == segment.count - 1
    edge = "A" if segment.line == segment.index == 0 else "Z" if is_last else "M"
    kind = _kind(segment.text, _class_of(tokens[0], _classes()))
    key = f"{shape}{kind}{'L' if segment.count <= _LONE_LINES else 'l'}"
    dense[key] = min(dense.get(key, 0.0) + 1, 2.0)
    dense[f"{shape}{kind}{edge}"] = 1.0
    if edge != "M":
        ngrams.update(["E" + token for token in tokens[:_WIDTH]])


def _add(values: dict[int, float], names: Iterable[str], value: float) -> None:
    for name in names:
        bucket = crc32(name.encode("utf-8", "replace")) % BUCKETS
        values[bucket] = values.get(bucket, 0.0) + value


def _kind(text: str, first: Sequence[str]) -> str:
    """Returns the kind of a segment: a request, a question, or neither."""
    if "imperative" in first or "edit" in first:
        return "i"
    return "q" if "question" in first or text.endswith("?") else "o"


def _segment(
    text: str, tokens: Sequence[str], shape: str, ngrams: set[str], dense: dict[str, float]
) -> None:
    """Adds the features of one segment."""
    table = _classes()
    classes = [_class_of(token, table) for token in tokens]
    for length in (1, 2, 3)[: len(tokens)]:
        ngrams.add(f"{shape}^{' '.join(tokens[:length])}")
    _pairs(text, classes, shape, dense)
    before = "^"
    for token, names in zip(tokens, classes, strict=True):
        ngrams.add("w" + token)
        for name in names or ("-",):
            if before != "-" or name != "-":
                dense[f"b{before}{name}"] = 1.0
        before = names[0] if names else "-"
    ngrams.update([f"b{first} {second}" for first, second in pairwise(tokens)])


def _pairs(
    text: str, classes: Sequence[tuple[str, ...]], shape: str, dense: dict[str, float]
) -> None:
    """Adds the word classes of a segment, and each pair of them."""
    kind = _kind(text, classes[0])
    present = {name for names in classes for name in names}
    if _ADDRESS.search(text):
        present.add("address")
    if text.endswith("?"):
        present.add("asks")
    ordered = sorted(present)
    for index, name in enumerate(ordered):
        dense[f"c{shape}{name}"] = 1.0
        dense[f"k{kind}{name}"] = 1.0
        for second in ordered[index + 1 :]:
            dense[f"p{name}{second}"] = 1.0
