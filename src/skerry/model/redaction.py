"""Erases statements from texts: the sentences that contain a phrase to forget (pure)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from skerry.model.errors import SkerryError
from skerry.model.late import sentences

MARK: Final = "[forgotten]"
"""Placeholder of an erased statement."""
MAX_PHRASES: Final = 20
MIN_CHARS: Final = 3
"""Minimum letters and digits of a phrase: a shorter one occurs in nearly every text."""
MAX_CHARS: Final = 1000
REACH: Final = 1000
"""Maximum characters that are erased on each side of a phrase if no sentence or line ends
sooner."""
_WORD: Final = 60
"""Maximum characters by which an erased span is extended to the end of a word."""
NAME_KEYS: Final = frozenset(
    {"account", "api", "channel", "data", "mimeType", "model", "peer", "provider", "role", "type"}
)
"""Keys of stored JSON whose values are names, ids or the bytes of images; also `…Id`, `…Key`."""
SIGNATURES: Final = ("textSignature", "thoughtSignature")
"""Signatures of a text, which are not valid after a change."""

_REMOVED: Final = object()
_BULLET: Final = re.compile(r"[\s>#*+\-\d.)\[\]x|_`~]*")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+>#]+[ \t]+)?(?:\[[ xX]\][ \t]+)?")
"""Marker before the text of a line of Markdown."""
_LINE_ENDS: Final = "\n\r\u2028\u2029"
_LINE: Final = re.compile(rf"[^{_LINE_ENDS}]*+(?:\r\n|[{_LINE_ENDS}])?")
_Span = tuple[int, int, bool]
"""Start and end of a statement, and True if the span is the whole statement."""
# Scripts without spaces have no ends of words.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class PhraseError(SkerryError):
    """A phrase cannot be forgotten; the message has the remedy."""

    code = "memory.phrase"


class Redaction:
    """Finds phrases and removes the statements that contain them.

    A phrase is found regardless of case, with any characters between its words. Its statement is
    the sentence, or the line if that ends sooner.

    Raises:
        PhraseError: there are no phrases or too many, or one is too short or too long.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self.phrases = tuple(dict.fromkeys(phrase.strip() for phrase in phrases))
        if not 0 < len(self.phrases) <= MAX_PHRASES:
            raise PhraseError(f"Give 1 to {MAX_PHRASES} phrases to forget.")
        words = [_words(phrase) for phrase in self.phrases]
        self._phrase = re.compile("|".join(_pattern(word) for word in words), re.IGNORECASE)
        self.needles = tuple(max(word, key=len).casefold() for word in words)
        """The longest word of each phrase, in folded case."""

    def may_be_in(self, text: str) -> bool:
        """Returns False if the text cannot contain a phrase; cheap.

        The text may have JSON escapes.
        """
        folded = unicodedata.normalize("NFC", text).casefold()
        return any(needle in folded for needle in self.needles)

    def holds(self, text: str) -> bool:
        """Returns whether the text contains a phrase."""
        return self._phrase.search(text) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of the statements, in order and without overlap."""
        return [(begin, end) for begin, end, _ in self._spans(text)]

    def text(self, text: str) -> str:
        """Returns the text with `MARK` in place of each statement."""
        return _put(text, [(begin, end, MARK) for begin, end, _ in self._spans(text)])

    def document(self, text: str) -> str:
        """Returns the Markdown without the statements and without bullets that became empty.

        `MARK` replaces a statement only if it was too long to be erased as a whole.
        """
        parts: list[str] = []
        last = 0
        for begin, end, spans in _lines(text, self._spans(text)):
            marked = [(start, stop, "" if is_whole else MARK) for start, stop, is_whole in spans]
            new = _tidied(_put(text, marked, begin, end), text[begin : spans[0][0]])
            parts.append(text[last:begin])
            if not _BULLET.fullmatch(new):
                parts.append(new)
            last = end
        return "".join([*parts, text[last:]])

    def _spans(self, text: str) -> list[_Span]:
        spans: list[_Span] = []
        for match in self._phrase.finditer(text):
            begin, end, is_whole = _statement(text, *match.span())
            if spans and begin <= spans[-1][1]:
                first, last, before = spans.pop()
                begin, end, is_whole = first, max(end, last), is_whole and before
            spans.append((begin, end, is_whole))
        return spans

    def value(self, value: Any) -> Any:
        """Returns the JSON value with every text redacted; the same object if nothing changed.

        Names and ids are kept, except in the arguments of a tool, which may contain any text.
        """
        return self._value(value, names=True)

    def _value(self, value: Any, *, names: bool) -> Any:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return self._object(value, names=names)
            case list() | tuple():
                parts = (self._value(element, names=names) for element in value)
                remaining = [new for new in parts if new is not _REMOVED]
                return value if remaining == list(value) else remaining
            case _:
                return value

    def _object(self, value: Mapping[str, Any], *, names: bool) -> Any:
        new = {
            key if names else self.text(key): field
            if names and _names(key)
            else self._value(field, names=names and key != "arguments")
            for key, field in value.items()
        }
        if new == value:
            return value
        if new.get("type") == "thinking":
            return _REMOVED  # providers accept only unchanged thinking blocks
        return {key: field for key, field in new.items() if key not in SIGNATURES}


def _names(key: str) -> bool:
    return key in NAME_KEYS or key.lower().endswith(("id", "key"))


def _words(phrase: str) -> list[str]:
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", phrase))
    chars = sum(map(len, words))
    if chars < MIN_CHARS:
        raise PhraseError(
            f"{phrase!r} is too short to forget: give at least {MIN_CHARS} letters or digits of"
            " the statement."
        )
    if len(phrase) > MAX_CHARS:
        raise PhraseError(f"A phrase to forget has at most {MAX_CHARS} characters.")
    return words


def _pattern(words: Sequence[str]) -> str:
    parts = [
        "(?:" + "|".join(dict.fromkeys(re.escape(form) for form in _forms(word))) + ")"
        for word in words
    ]
    before = "" if _UNSPACED.match(words[0][0]) else r"(?<![^\W_])"
    after = "" if _UNSPACED.match(words[-1][-1]) else r"(?![^\W_])"
    return before + r"[\W_]{1,8}".join(parts) + after


def _forms(word: str) -> tuple[str, str]:
    return word, unicodedata.normalize("NFD", word)


def _statement(text: str, begin: int, end: int) -> _Span:
    first, starts = _first(text, begin)
    last, ended = _last(text, end)
    while first < begin and text[first].isspace():
        first += 1
    return first, last, starts and ended


def _first(text: str, begin: int) -> tuple[int, bool]:
    """Returns the start of the span, and True if the statement begins there."""
    low = max(0, begin - REACH)
    after = [end for _, end in sentences.ends(text, low, begin)]
    if not after and low:
        return _between(text, low, max(0, low - _WORD), -1), False
    first = after[-1] if after else 0
    if first == 0 or text[first - 1] in _LINE_ENDS:
        item = _ITEM.match(text, first, begin)
        first = first if item is None else item.end()
    return first, True


def _last(text: str, end: int) -> tuple[int, bool]:
    """Returns the end of the span, and True if the statement ends there."""
    high = min(len(text), end + REACH)
    for begin, after in sentences.ends(text, max(0, end - 1), high):
        return begin if text[begin] in _LINE_ENDS else after, True
    if high == len(text):
        return high, True
    return _between(text, high, min(len(text), high + _WORD), 1), False


def _between(text: str, start: int, end: int, step: int) -> int:
    """Returns the first position from `start` to `end` that is not within a word, else `start`."""
    for index in range(start, end, step):
        if text[index - 1].isspace() or text[index].isspace():
            return index
    return start


def _lines(text: str, spans: Iterable[_Span]) -> Iterator[tuple[int, int, list[_Span]]]:
    """Yields start, end and statements of each line with statements."""
    last = 0
    waiting: list[_Span] = []
    first = 0
    for span in spans:
        if waiting and span[0] < last:
            waiting.append(span)
        else:
            if waiting:
                yield first, last, waiting
            waiting = [span]
            first = max(last, *(text.rfind(line_end, last, span[0]) + 1 for line_end in _LINE_ENDS))
        if span[1] > last or len(waiting) == 1:
            match = _LINE.match(text, span[1])
            last = span[1] if match is None else match.end()
    if waiting:
        yield first, last, waiting


def _put(
    text: str, spans: Iterable[tuple[int, int, str]], last: int = 0, end: int | None = None
) -> str:
    """Returns a part of the text with these spans replaced."""
    parts: list[str] = []
    for begin, after, mark in spans:
        parts += [text[last:begin], mark]
        last = after
    return "".join([*parts, text[last:end]])


def _tidied(line: str, before: str) -> str:
    """Returns a line without the spaces that were around erased statements.

    `before` is the text before the first statement.
    """
    head = line[len(before) :].lstrip(" \t") if before == "" or before[-1].isspace() else None
    joined = line if head is None else before + head
    indent = len(joined) - len(joined.lstrip(" \t"))
    tidy = re.sub(r"(?<=[^ \t])[ \t]{2,}", " ", joined[indent:])
    return joined[:indent] + re.sub(r"(?<=[^ \t])[ \t]++(?=[\r\n]*+\Z)", "", tidy)
