"""Leaves out of hits what the model that asks has before it: its own conversation (pure)."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from skerry.model.memory import KnownMessages, MemoryHit, MemorySource
from skerry.model.provenance import clean
from skerry.model.recalled import unrecalled
from skerry_recall.terms import shared

SPEAKERS: Final = ("User: ", "Assistant: ")
"""Labels of the lines of a transcript."""
_BETWEEN: Final = "\ue000"
"""A character for private use, which stays where texts are cleaned and in which no line goes on."""


def unheard(hits: Iterable[MemoryHit], heard: KnownMessages, question: str) -> Iterator[MemoryHit]:
    """Yields the hits without what was heard of their conversation.

    What was said is in passages, and the first message that the model has before it may stand in
    the middle of one. Such a passage ends before it; one that answered with it alone is left out.
    The text is compared, since one backend knows the date of the whole conversation only.
    """
    spoken: str | None = None
    for hit in hits:
        if hit.source is not MemorySource.SESSIONS or hit.session != heard.key:
            yield hit
            continue
        if spoken is None:  # half a megabyte of text, for the few questions that need it
            spoken = flat(map(unrecalled, heard.texts()))
        lines = hit.text.split("\n")
        kept_lines = list(lines)
        while kept_lines and stands_in(kept_lines[-1], spoken):
            kept_lines.pop()
        if len(kept_lines) == len(lines) or all(
            not line.strip() for line in lines[len(kept_lines) :]
        ):
            yield hit
        elif kept_lines and _answers(question, kept_lines, lines):
            end = hit.start_line + len(kept_lines) - 1
            yield replace(hit, text="\n".join(kept_lines), end_line=min(end, hit.end_line))


def stands_in(line: str, spoken: str) -> bool:
    """Returns whether a line of a transcript is nothing but what `said` has, its spaces single."""
    line = _flat(clean(line))
    for label in SPEAKERS:
        line = line.removeprefix(label)
    return line in spoken


def flat(texts: Iterable[str]) -> str:
    """Returns the texts as `stands_in` compares them, with a mark between two.

    All are split at once: a long conversation has hundreds of short ones.
    """
    return _flat(clean(f" {_BETWEEN} ".join(texts)))


def _answers(question: str, kept_lines: list[str], lines: list[str]) -> bool:
    """Returns whether the rest has half of the question's words that the whole had, or more."""
    words = shared()
    terms = set(words.content(question))
    had, has = (terms.intersection(words.content("\n".join(part))) for part in (lines, kept_lines))
    return 2 * len(has) >= len(had)


def _flat(text: str) -> str:
    return " ".join(text.split())
