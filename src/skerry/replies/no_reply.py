"""The word by which a model says nothing, held back while it comes (pure).

A reply is silent only when the whole of it is the word. One that merely ends with it loses the word
and is said (decisions 6; openclaw-behaviour 6.6).
"""

import re
from typing import Final

SILENT: Final = "NO_REPLY"
_EDGE: Final = " \t\r\n`*\"'.!\u2026\u201c\u201d\u2018\u2019"
"""Characters that may surround the word."""
_OBJECT: Final = '{"action":"NO_REPLY"}'
_LONGEST: Final = 64
"""Characters of a silent reply with what stands around the word."""
_TAIL: Final = re.compile(
    r"(?<!\w)N(?:O(?:_(?:R(?:E(?:P(?:L(?:Y[\s`*\"'.!]{0,8})?)?)?)?)?)?)?\Z"  # begun, or whole
)
_SURE: Final = 3
"""Letters of the word after which nothing else is meant by it."""


def is_silent(text: str) -> bool:
    """Return whether the text is the word and nothing else."""
    return text.strip(_EDGE) == SILENT or "".join(text.split()) == _OBJECT


class Silence:
    """Lets a text through as it comes, less the word where it counts."""

    __slots__ = ("_before", "_held", "_open", "silent")

    def __init__(self) -> None:
        self._before = ""
        """The last character that was let through: the word is none behind a letter."""
        self._held = ""
        self._open = False
        """True when text was released, so that the reply is not silent."""
        self.silent = False
        """True when the reply has ended and is silent."""

    def feed(self, text: str) -> str:
        """Returns the text that may be released now."""
        if self._open and not self._held and "N" not in text:
            self._before = text[-1:] or self._before
            return text
        self._held += text
        if not self._open:
            if _may_be_silent(self._held):
                return ""
            self._open = True
        start = len(self._before)
        found = _TAIL.search(self._before + self._held, start)
        end = found.start() - start if found else len(self._held)
        said, self._held = self._held[:end], self._held[end:]
        self._before = said[-1:] or self._before
        return said

    def end(self, *, cut: bool) -> str:
        """Returns the held text that is to be released; `cut`: the reply broke off."""
        held, self._held = self._held, ""
        word = held.strip(_EDGE)
        if not self._open and is_silent(held):
            self.silent = True
            return ""
        begun = bool(word) and SILENT.startswith(word)
        if word == SILENT or (cut and begun and (len(word) >= _SURE or not self._open)):
            return ""
        return held


def _may_be_silent(text: str) -> bool:
    """Return whether a reply that begins so may turn out to be silent."""
    if len(text) > _LONGEST:
        return False
    word = text.lstrip(_EDGE)
    if word and word[0] not in "N{":
        return False  # as most replies
    if SILENT.startswith(word) or is_silent(text):
        return True
    return word.startswith("{") and _OBJECT.startswith("".join(word.split()))
