"""Exchange of an entry: a question, the tool calls for it, the answer (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skerry.model.message import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from skerry.store.candidates import Entry

WIDTH: Final = 12
"""Entries to either side of a hit among which its question and its answer are looked for."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Entries shown for a hit: three at most, in the order of the conversation."""

    said: "Entry"
    before: "Entry | None"
    """The question, or what was said before it."""
    after: "Entry | None"
    """The answer, or what was said after it."""
    whole: frozenset[int]
    """Rowids of all entries of the exchange, and of those shown."""
    both: frozenset[int]
    """Rowids of its question and its answer."""


def exchange(entries: Sequence["Entry"], at: int) -> Exchange:
    """Returns the exchange of the entry at a position among those that stand around it.

    The question is the person's last words up to the entry, the answer the last words of the
    assistant before the person speaks again. What tools were asked and said stands between.
    """
    begin = next((index for index in range(at, -1, -1) if _asks(entries[index])), 0)
    end = next(
        (index for index in range(at + 1, len(entries)) if _asks(entries[index])), len(entries)
    )
    answers = [index for index in range(begin, end) if _answers(entries[index])]
    answer = answers[-1] if answers else None
    before = begin if begin < at else _spoken(entries, range(at - 1, -1, -1))
    after = (
        answer
        if answer is not None and answer > at
        else _spoken(entries, range(at + 1, len(entries)))
    )
    shown = [entries[index] for index in (at, before, after) if index is not None]
    both = [entries[index] for index in (begin, answer) if index is not None]
    return Exchange(
        said=entries[at],
        before=None if before is None else entries[before],
        after=None if after is None else entries[after],
        whole=frozenset(entry.rowid for entry in (*entries[begin:end], *shown)),
        both=frozenset(entry.rowid for entry in both),
    )


def _spoken(entries: Sequence["Entry"], where: range) -> int | None:
    return next((at for at in where if _asks(entries[at]) or _answers(entries[at])), None)


def _asks(entry: "Entry") -> bool:
    return isinstance(entry.said, UserMessage)


def _answers(entry: "Entry") -> bool:
    return isinstance(entry.said, AssistantMessage) and bool(entry.said.text.strip())
