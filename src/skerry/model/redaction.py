"""Takes statements out of texts: what is to be forgotten, wherever it was said (pure)."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skerry.model.errors import SkerryError

MARK: Final = "[forgotten]"
"""Stands where a statement was."""
MAX_PHRASES: Final = 20
MIN_CHARS: Final = 3
"""Letters and digits of a phrase: a shorter one stands nearly everywhere."""
MAX_CHARS: Final = 1000
REACH: Final = 400
"""Characters on each side of a phrase that go with it where no sentence and no line ends sooner."""
KEPT: Final = frozenset(
    {"account", "api", "channel", "data", "mimeType", "model", "peer", "provider", "role", "type"}
)
"""Keys of stored JSON whose values name things, or are the bytes of images; and `…Id`, `…Key`."""
SIGNATURES: Final = ("textSignature", "thoughtSignature")
"""Proofs of a text, which no longer hold when it is changed."""

_GONE: Final = object()
_END: Final = re.compile(r"[\n\r\u2028\u2029]|[.!?…](?=[\s\"')\]]|$)|[\u3002\uff01\uff1f]")
_BULLET: Final = re.compile(r"[\s>#*+\-\d.)\[\]x|_`~]*")
# Scripts that are written without spaces have no end of a word to look for.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class PhraseError(SkerryError):
    """A phrase cannot be forgotten; the message says what would do."""

    code = "memory.phrase"


class Redaction:
    """Finds phrases and takes the statements out in which they stand.

    A phrase is found whatever the case of its letters is, and whatever stands between its words.
    Its statement is the sentence, or the line where that ends sooner.

    Raises:
        PhraseError: there are none or too many, or one is too short or too long.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self.phrases = tuple(dict.fromkeys(one.strip() for one in phrases))
        if not 0 < len(self.phrases) <= MAX_PHRASES:
            raise PhraseError(f"Name one to {MAX_PHRASES} phrases to forget.")
        words = [_words(one) for one in self.phrases]
        self._phrase = re.compile("|".join(_pattern(one) for one in words), re.IGNORECASE)
        self._needles = tuple(max(one, key=len).casefold() for one in words)

    def may_be_in(self, text: str) -> bool:
        """Return whether it is worth looking; cheap, and never wrong with False.

        The text may be one with JSON's escapes.
        """
        folded = unicodedata.normalize("NFC", text).casefold()
        return any(needle in folded for needle in self._needles)

    def holds(self, text: str) -> bool:
        """Return whether a phrase stands in the text."""
        return self._phrase.search(text) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the statements begin and end, in order and apart."""
        found: list[tuple[int, int]] = []
        for match in self._phrase.finditer(text):
            begin, end = _statement(text, *match.span())
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((begin, end))
        return found

    def text(self, text: str) -> str:
        """Return the text with a mark in the place of each statement."""
        return _put(text, self.spans(text), MARK)

    def document(self, text: str) -> str:
        """Return the Markdown without the statements, and without what only they had: a bullet."""
        lines = text.splitlines(keepends=True)
        left: list[str] = []
        for line in lines if self.holds(text) else ():
            new = _put(line, self.spans(line), "")
            if new == line or not _BULLET.fullmatch(new):
                left.append(new if new == line else re.sub(r"(?<=\S)[ \t]{2,}", " ", new))
        found = "".join(left) if self.holds(text) else text
        # A phrase that goes over the end of a line is in none of the lines alone.
        return _put(found, self.spans(found), "")

    def value(self, value: Any) -> Any:
        """Return the JSON value with every text in it redacted; the value itself if it has none.

        Names and ids stay, but in the arguments of a tool, where anything may have been said.
        """
        return self._value(value, names=True)

    def _value(self, value: Any, *, names: bool) -> Any:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return self._object(value, names=names)
            case list() | tuple():
                parts = (self._value(one, names=names) for one in value)
                kept = [new for new in parts if new is not _GONE]
                return value if kept == list(value) else kept
            case _:
                return value

    def _object(self, value: Mapping[str, Any], *, names: bool) -> Any:
        new = {
            key if names else self.text(key): one
            if names and _names(key)
            else self._value(one, names=names and key != "arguments")
            for key, one in value.items()
        }
        if new == value:
            return value
        if new.get("type") == "thinking":
            return _GONE  # a provider takes thoughts back unchanged or not at all
        return {key: one for key, one in new.items() if key not in SIGNATURES}


def _names(key: str) -> bool:
    return key in KEPT or key.lower().endswith(("id", "key"))


def _words(phrase: str) -> list[str]:
    found = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", phrase))
    chars = sum(map(len, found))
    if chars < MIN_CHARS:
        raise PhraseError(
            f"{phrase!r} is too short to forget: give at least {MIN_CHARS} letters or digits, as"
            " they were said."
        )
    if len(phrase) > MAX_CHARS:
        raise PhraseError(f"A phrase to forget has {MAX_CHARS} characters at most.")
    return found


def _pattern(words: Sequence[str]) -> str:
    parts = [
        "(?:" + "|".join(dict.fromkeys(re.escape(form) for form in _forms(one))) + ")"
        for one in words
    ]
    before = "" if _UNSPACED.match(words[0][0]) else r"(?<![^\W_])"
    after = "" if _UNSPACED.match(words[-1][-1]) else r"(?![^\W_])"
    return before + r"[\W_]{1,8}".join(parts) + after


def _forms(word: str) -> tuple[str, str]:
    return word, unicodedata.normalize("NFD", word)


def _statement(text: str, begin: int, end: int) -> tuple[int, int]:
    low, high = max(0, begin - REACH), min(len(text), end + REACH)
    ends = [match.end() for match in _END.finditer(text, low, begin)]
    first = ends[-1] if ends else low
    while first < begin and text[first].isspace():
        first += 1
    after = _END.search(text, max(begin, end - 1), high)
    if after is None:
        return first, high
    return first, after.start() if after[0].isspace() else after.end()


def _put(text: str, spans: Sequence[tuple[int, int]], mark: str) -> str:
    parts, last = [], 0
    for begin, end in spans:
        parts += [text[last:begin], mark]
        last = end
    return "".join([*parts, text[last:]])
