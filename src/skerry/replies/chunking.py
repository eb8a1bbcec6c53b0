"""Cuts a streamed text into blocks (pure).

The blocks depend only on the text, not on the sizes of the deltas. A block ends at the first break
of the preferred kind after the minimum; at the maximum it is cut as in `split_points`.
"""

from dataclasses import dataclass
from typing import Final

from skerry.model.outbound import TextUnit
from skerry.replies.graphemes import reach, size
from skerry.replies.split_points import (
    LOOKAHEAD,
    START,
    Break,
    FenceMap,
    FenceState,
    PartRoom,
    TextPiece,
    cut,
    ends,
    fits,
    opening,
)

_ORDER: Final = tuple(Break)


@dataclass(frozen=True, slots=True)
class Chunking:
    """Length of blocks: openclaw-behaviour 6.5."""

    minimum: int = 800
    """Minimum characters of a block, except for the last one."""
    maximum: int = 1200
    """Maximum units of a block on the platform, including the added lines of fences."""
    preference: Break = Break.PARAGRAPH
    unit: TextUnit = TextUnit.CHARACTERS

    @property
    def room(self) -> PartRoom:
        """Returns the size limits and break kinds for a block without a preferred break."""
        kinds = _ORDER[_ORDER.index(self.preference) :]
        return PartRoom(self.maximum, self.unit, min(self.minimum, self.maximum), kinds)


class Chunker:
    """Takes the deltas of a text and returns blocks."""

    def __init__(self, chunking: Chunking) -> None:
        self._chunking = chunking
        self._room = chunking.room
        self._state: FenceState = START
        self._text = ""
        self._size = 0
        self._searched = 0
        """Position up to which breaks were searched."""

    def feed(self, delta: str) -> list[TextPiece]:
        """Adds a delta; returns the blocks that are complete."""
        self._text += delta
        self._size += size(delta, self._chunking.unit)
        if len(self._text) < self._room.minimum:
            return []
        blocks: list[TextPiece] = []
        while (block := self._next()) is not None:
            blocks.append(block)
        return blocks

    def flush(self) -> list[TextPiece]:
        """Returns the remaining text in blocks, and resets the chunker for another text."""
        blocks: list[TextPiece] = []
        while not fits(self._text, self._state, self._room):
            block, state = cut(self._text, self._state, self._room)
            blocks.append(self._take(block, state))
        if self._text:
            blocks.append(TextPiece(self._text, opening(self._state, self._room)))
        self.drop()
        return blocks

    def drop(self) -> None:
        """Discards the remaining text, and resets the chunker for another text."""
        self._text, self._size, self._searched, self._state = "", 0, 0, START

    def continue_after(self, text: str) -> None:
        """Continues after a text whose blocks were already returned."""
        self.drop()
        self._state = FenceMap(text, START).at(len(text))

    def _next(self) -> TextPiece | None:
        before = opening(self._state, self._room)
        room = self._room.limit - size(before, self._chunking.unit)
        hard = len(self._text)
        if self._size > room:
            hard = reach(self._text, room, self._chunking.unit)
        end = self._preferred(hard)
        if end is not None:
            state = FenceMap(self._text[:end], self._state).at(end)
            return self._take(TextPiece(self._text[:end], before), state)
        if len(self._text) < hard + LOOKAHEAD:
            return None
        return self._take(*cut(self._text, self._state, self._room))

    def _preferred(self, hard: int) -> int | None:
        """Returns the first break of the preferred kind after the minimum, outside of fences."""
        start = max(self._searched, self._room.minimum - LOOKAHEAD, 0)
        lines: FenceMap | None = None
        kind = self._chunking.preference
        # Within a line, the following characters decide whether a cut would create a fence.
        decided = len(self._text) - (LOOKAHEAD if kind is Break.SENTENCE else 0)
        for end in ends(self._text, kind, start, min(hard, decided)):
            if end < self._room.minimum:
                continue
            lines = lines or FenceMap(self._text[:hard], self._state)
            if not lines.is_inside(end) and lines.may_cut(end):
                return end
        self._searched = max(min(hard, decided) - LOOKAHEAD, 0)
        return None

    def _take(self, block: TextPiece, state: FenceState) -> TextPiece:
        self._text = self._text[len(block.body) :]
        self._size = size(self._text, self._chunking.unit)
        self._searched, self._state = 0, state
        return block


class Coalescer:
    """Joins blocks that follow each other quickly."""

    def __init__(self, minimum: int, maximum: int, unit: TextUnit) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._unit = unit
        self._pending: TextPiece | None = None

    @property
    def holds(self) -> bool:
        """Returns whether a block waits to be joined with the next."""
        return self._pending is not None

    def add(self, block: TextPiece) -> list[TextPiece]:
        """Adds a block; returns those that are ready to send."""
        pending, self._pending = self._pending, block
        if pending is None:
            return []
        joined = TextPiece(pending.body + block.body, pending.opening, block.closing)
        if size(joined.text, self._unit) > self._maximum:
            return [pending]
        self._pending = joined
        return []

    def idle(self) -> list[TextPiece]:
        """Returns the pending text, if it is long enough, after a pause in the input."""
        if self._pending is None or len(self._pending.body) < self._minimum:
            return []
        return self.flush()

    def flush(self) -> list[TextPiece]:
        """Returns the pending text at the end of the input."""
        pending, self._pending = self._pending, None
        return [pending] if pending is not None else []


def remainder(text: str, start: int) -> TextPiece:
    """Returns the text from character `start` on, with the opening line of a fence open there."""
    state = FenceMap(text[:start], START).at(start)
    fence = "" if state.fence is None else f"{state.fence.opening}\n"
    return TextPiece(text[start:], fence)
