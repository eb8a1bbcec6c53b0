"""Terms of a text for the index, and of a question for the search (pure).

Case and accents are folded, words are stemmed: as English, and in the guessed language of the text.
A form that is joined by dots, dashes, underscores or the like (`ERR_CONN_42`, `foo_bar.py`,
`2026-05-08`) has a term for the whole and one for each part. Scripts without spaces are cut into
overlapping pairs of characters.
"""

import re
import threading
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from Stemmer import Stemmer  # type: ignore[import-not-found]

from skerry_recall.common_words import COMMON, UNSPACED
from skerry_recall.language import LANGUAGE_WORDS, guess
from skerry_recall.normalize import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

MAX_TERM: Final = 64
"""Characters of a term; a longer one is cut off."""
MAX_QUESTION: Final = 10_000
"""Characters of a question that are searched; the remaining ones are ignored."""
_CACHED: Final = 50_000
"""Number of forms with cached terms, about 150 bytes each."""

FORM: Final = re.compile(r"\w+(?:[-./:@+'\u2019]\w+)*")
"""Text between two spaces, with the signs that join its parts."""
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


class FormCache(dict[str, tuple[T, ...]], Generic[T]):
    """Cache of a function over forms; it is emptied at its limit.

    One thread at a time calls the function; a look-up of a cached form takes no lock.
    """

    def __init__(
        self, make: "Callable[[str], Iterable[T]]", turn: "threading.RLock | None" = None
    ) -> None:
        super().__init__()
        self._make = make
        self._turn = turn or threading.RLock()

    def __missing__(self, form: str) -> tuple[T, ...]:
        with self._turn:
            result = tuple(self._make(form))
            if len(self) >= _CACHED:
                self.clear()
            if len(form) <= MAX_TERM:
                self[form] = result
        return result

    def of(self, text: str) -> list[T]:
        """Returns the results for all forms of the text, in order."""
        return list(chain.from_iterable(map(self.__getitem__, FORM.findall(text))))


class Words:
    """Turns texts into terms and caches them by form. Usable from all threads."""

    def __init__(self) -> None:
        # The cache of the stemmer costs more than stemming does.
        self._stemmer: Callable[[str], _Stemmer] = lambda language: Stemmer(language, 0)
        self._stemmers: dict[str, _Stemmer] = {"english": self._stemmer("english")}
        self._turn = threading.RLock()
        """Held while stemming: a stemmer is not thread-safe."""
        self._english = FormCache(self._form_terms, self._turn)
        self._by_language: dict[str, FormCache[str]] = {"": self._english}

    def terms(self, text: str) -> list[str]:
        """Returns the terms of the text in order, with repetitions."""
        return self.of_language(guess(text)).of(text)

    def of_language(self, language: str) -> FormCache[str]:
        """Returns the cache for the terms of a language, as `guess` returns it.

        In languages other than English a word has a second term, its stem in that language. The
        first term is the same for all languages, so that an exact word matches in any language.
        """
        if language not in self._by_language:
            cache = FormCache(partial(self._inflected, language), self._turn)
            return self._by_language.setdefault(language, cache)
        return self._by_language[language]

    def content(self, question: str) -> list[str]:
        """Returns the distinct terms of the question without those of common words.

        A question with common words only keeps them.
        """
        forms = FORM.findall(question[:MAX_QUESTION])
        uncommon = [form for form in forms if plain(form) not in COMMON]
        stems = self.of_language(guess(question))
        return list(dict.fromkeys(term for form in uncommon or forms for term in stems[form]))

    def _form_terms(self, form: str) -> list[str]:
        """Returns the terms of the text between two spaces."""
        parts = _PART.findall(form)
        if len(parts) == 1 and parts[0] == form:
            return self._word(form)
        terms = [term for part in parts for term in self._word(part)]
        whole = plain(form).strip("_")
        if (
            len(parts) > 1
            and parts[-1].lower() in _CLITICS
            and form[-len(parts[-1]) - 1] in "'\u2019"
        ):
            return [term for part in parts[:-1] for term in self._word(part)]
        if len(parts) > 1 and not _RUN.search(form):
            terms.append(whole[:MAX_TERM])
        return terms

    def _inflected(self, language: str, form: str) -> list[str]:
        """Returns the terms of a form, and the stems of its parts in the language: `stem~german`.

        Common words of the language have no stem: with them 0.8 less first hits were right in
        Spanish.
        """
        words = [plain(part)[:MAX_TERM] for part in _PART.findall(form) if not _RUN.match(part)]
        common = LANGUAGE_WORDS[language]
        uncommon = [word for word in words if word.isalpha() and word not in common]
        stem = self._by(language).stemWord
        return [*self._english[form], *(f"{stem(word)}~{language}" for word in uncommon)]

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
    """Returns the `Words` of the process.

    Without a shared cache, stemming the words of a question takes longer than the search.
    """
    return Words()


def terms(text: str) -> list[str]:
    """Returns the terms of one text."""
    return shared().terms(text)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]
