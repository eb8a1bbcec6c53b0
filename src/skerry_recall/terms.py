"""Words of a text that are indexed, and of a question that are searched (pure).

Case and accents are folded, words stemmed: as English, and as the language that the text seems to
be in. What is joined by dots, dashes, underscores or the like
(`ERR_CONN_42`, `foo_bar.py`, `2026-05-08`) is kept as a whole and in its parts. Scripts that are
written without spaces are cut into overlapping pairs of characters.
"""

import re
import threading
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from Stemmer import Stemmer  # type: ignore[import-not-found]

from skerry_recall.common_words import COMMON, UNSPACED
from skerry_recall.language import SPOKEN, guess
from skerry_recall.normalize import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

MAX_TERM: Final = 64
"""Characters of a term; of a longer one the beginning is kept."""
MAX_QUESTION: Final = 10_000
"""Characters of a question that are looked at."""
_CACHED: Final = 50_000
"""Forms whose terms are remembered, of about 150 bytes each."""

FORM: Final = re.compile(r"\w+(?:[-./:@+'\u2019]\w+)*")
"""Text between two spaces, whatever joins its parts."""
_PART: Final = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_RUN: Final = re.compile(rf"[{UNSPACED}]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CLITICS: Final = frozenset({"s", "t", "d", "m", "ll", "ve", "re"})
_SCRIPTS: Final = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0b80", "\u0bff", "tamil"),
)


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...  # noqa: N802 - the library's name


class Known(dict[str, tuple[T, ...]], Generic[T]):
    """Cache of a function over forms; it is emptied at its limit.

    What is made is made by one thread at a time; looking up takes no lock.
    """

    def __init__(
        self, make: "Callable[[str], Iterable[T]]", turn: "threading.RLock | None" = None
    ) -> None:
        super().__init__()
        self._make = make
        self._turn = turn or threading.RLock()

    def __missing__(self, form: str) -> tuple[T, ...]:
        with self._turn:
            made = tuple(self._make(form))
            if len(self) >= _CACHED:
                self.clear()
            if len(form) <= MAX_TERM:
                self[form] = made
        return made

    def of(self, text: str) -> list[T]:
        """Returns the results for all forms of the text, in order."""
        return list(chain.from_iterable(map(self.__getitem__, FORM.findall(text))))


class Words:
    """Turns texts into terms; it remembers what it saw. Usable from all threads."""

    def __init__(self) -> None:
        # Its own cache costs more than stemming does.
        self._stemmer: Callable[[str], _Stemmer] = lambda language: Stemmer(language, 0)
        self._stemmers: dict[str, _Stemmer] = {"english": self._stemmer("english")}
        self._turn = threading.RLock()
        """Whoever stems: a stemmer is not to be used by two threads."""
        self._known = Known(self._found, self._turn)
        self._spoken: dict[str, Known[str]] = {"": self._known}

    def terms(self, text: str) -> list[str]:
        """Returns the terms of the text in order, repeated as there."""
        return self.spoken(guess(text)).of(text)

    def spoken(self, language: str) -> Known[str]:
        """Returns the cache that makes the terms of a language, as `guess` returns it.

        In another than English a word has a second term, its stem in that language. The first is
        that of any text: an exact word is found whatever the languages of text and question.
        """
        if language not in self._spoken:
            made = Known(partial(self._inflected, language), self._turn)
            return self._spoken.setdefault(language, made)
        return self._spoken[language]

    def content(self, question: str) -> list[str]:
        """Returns the terms of the question, each once, without those of its common words.

        A question of common words alone keeps them.
        """
        forms = FORM.findall(question[:MAX_QUESTION])
        telling = [form for form in forms if plain(form) not in COMMON]
        stems = self.spoken(guess(question))
        return list(dict.fromkeys(term for form in telling or forms for term in stems[form]))

    def _found(self, form: str) -> list[str]:
        """Returns the terms of what stands between two spaces."""
        parts = _PART.findall(form)
        if len(parts) == 1 and parts[0] == form:
            return self._word(form)
        found = [term for part in parts for term in self._word(part)]
        whole = plain(form).strip("_")
        if (
            len(parts) > 1
            and parts[-1].lower() in _CLITICS
            and form[-len(parts[-1]) - 1] in "'\u2019"
        ):
            return [term for part in parts[:-1] for term in self._word(part)]
        if len(parts) > 1 and not _RUN.search(form):
            found.append(whole[:MAX_TERM])
        return found

    def _inflected(self, language: str, form: str) -> list[str]:
        """Returns the terms of a form, and those of its parts in the language, which name it.

        Without the common words: with them 0.8 less first hits were right in Spanish.
        """
        words = [plain(part)[:MAX_TERM] for part in _PART.findall(form) if not _RUN.match(part)]
        telling = [word for word in words if word.isalpha() and word not in SPOKEN[language]]
        stem = self._by(language).stemWord
        return [
            *self._known[form],
            *(f"{stem(language_form)}~{language}" for language_form in telling),
        ]

    def _word(self, word: str) -> list[str]:
        if _RUN.match(word):
            return _pairs(plain(word))
        folded = plain(word)[:MAX_TERM]
        stemmed = [self._stem(folded)]
        if not (word.islower() or word.isupper()) and len(humps := _HUMP.split(word)) > 1:
            stemmed += [self._stem(plain(hump)) for hump in humps]
        return stemmed

    def _stem(self, word: str) -> str:
        if word.isascii():
            return self._by("english").stemWord(word)
        first = word[0]
        for low, high, language in _SCRIPTS:
            if low <= first <= high:
                return self._by(language).stemWord(word)
        return self._by("english").stemWord(word)

    def _by(self, language: str) -> _Stemmer:
        if language not in self._stemmers:
            self._stemmers[language] = self._stemmer(language)
        return self._stemmers[language]


@cache
def shared() -> Words:
    """Returns the `Words` that all of a process use.

    To stem the words of a question anew each time took longer than to look for them.
    """
    return Words()


def terms(text: str) -> list[str]:
    """Returns the terms of one text."""
    return shared().terms(text)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]
