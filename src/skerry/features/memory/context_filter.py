"""Removes from hits the messages that are already in the model's context (pure)."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from skerry.model.memory import KnownMessages, MemoryHit, MemorySource
from skerry.model.provenance import clean
from skerry.model.recalled import unrecalled
from skerry_recall.terms import shared

SPEAKERS: Final = ("User: ", "Assistant: ")
"""Labels of the lines of a transcript."""
_SEPARATOR: Final = "\ue000"
"""Private-use character that cleaning keeps and that no line contains."""


def outside_context(
    hits: Iterable[MemoryHit], messages: KnownMessages, question: str
) -> Iterator[MemoryHit]:
    """Yields the hits without the lines that are in the model's context.

    The first message of the context may be in the middle of a passage. Such a passage is cut
    before it; it is left out if only the removed lines answered the question. The text is
    compared, because one backend has only the date of the whole conversation.
    """
    context_text: str | None = None
    for hit in hits:
        if hit.source is not MemorySource.SESSIONS or hit.session != messages.key:
            yield hit
            continue
        if context_text is None:  # half a megabyte of text, for the few questions that need it
            context_text = flat(map(unrecalled, messages.texts()))
        lines = hit.text.split("\n")
        kept_lines = list(lines)
        while kept_lines and is_in_context(kept_lines[-1], context_text):
            kept_lines.pop()
        if len(kept_lines) == len(lines) or all(
            not line.strip() for line in lines[len(kept_lines) :]
        ):
            yield hit
        elif kept_lines and _answers(question, kept_lines, lines):
            end = hit.start_line + len(kept_lines) - 1
            yield replace(hit, text="\n".join(kept_lines), end_line=min(end, hit.end_line))


def is_in_context(line: str, context_text: str) -> bool:
    """Returns whether `context_text`, as `flat` returns it, contains a line of a transcript."""
    line = _flat(clean(line))
    for label in SPEAKERS:
        line = line.removeprefix(label)
    return line in context_text


def flat(texts: Iterable[str]) -> str:
    """Returns the texts in one line, with a separator between two.

    They are split together: a long conversation has hundreds of short texts.
    """
    return _flat(clean(f" {_SEPARATOR} ".join(texts)))


def _answers(question: str, kept_lines: list[str], lines: list[str]) -> bool:
    """Returns whether the kept lines have at least half of the question's words in `lines`."""
    words = shared()
    terms = set(words.content(question))
    had, has = (terms.intersection(words.content("\n".join(part))) for part in (lines, kept_lines))
    return 2 * len(has) >= len(had)


def _flat(text: str) -> str:
    return " ".join(text.split())
