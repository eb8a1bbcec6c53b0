"""Finds positions to cut a text into pieces that fit, and keeps fenced code fenced (pure).

The joined bodies of the pieces are the text. A piece that begins inside a fence starts with the
fence's opening line and its info string; a piece that ends inside a fence gets a closing line. Only
these lines are added, unless they would take more than half of the room.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skerry.model.outbound import TextUnit
from skerry.replies import code_fences
from skerry.replies.code_fences import Fence
from skerry.replies.graphemes import is_boundary, last_boundary, reach, size

LOOKAHEAD: Final = 8
"""Number of characters after the room that a decision may depend on."""


class Break(StrEnum):
    """Kind of position at which a text may be cut, the best first."""

    PARAGRAPH = "paragraph"
    """Break after an empty line."""
    NEWLINE = "newline"
    SENTENCE = "sentence"
    """Break after `.`, `!` or `?`, closing quotes and a space."""
    SPACE = "space"


_PATTERNS: Final = {
    Break.PARAGRAPH: re.compile(r"\n[ \t]{0,4}\n"),
    Break.NEWLINE: re.compile(r"\n"),
    Break.SENTENCE: re.compile(r"[.!?][\"'\u201d\u2019)\]]{0,3}\s"),
    Break.SPACE: re.compile(r"\s"),
}
"""Patterns of the breaks; no match is longer than `LOOKAHEAD`."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a text, with the added lines that keep its code fenced."""

    body: str
    opening: str = ""
    closing: str = ""

    @property
    def text(self) -> str:
        """Returns the shown text: the body with the added lines."""
        return f"{self.opening}{self.body}{self.closing}"


@dataclass(frozen=True, slots=True)
class PartRoom:
    """Size of a piece: at most `limit` units, and at least `minimum` characters if possible."""

    limit: int
    unit: TextUnit = TextUnit.CHARACTERS
    minimum: int = 1
    kinds: tuple[Break, ...] = (Break.NEWLINE, Break.SPACE)
    """Kinds of breaks, the preferred ones first."""


@dataclass(frozen=True, slots=True)
class FenceState:
    """State at a position of a text: the open fence, and whether a line begins there."""

    fence: Fence | None = None
    fresh: bool = True


START: Final = FenceState()


def opening(state: FenceState, room: PartRoom) -> str:
    """Returns the added first line of a piece that begins in the state; empty outside of fences."""
    if state.fence is None:
        return ""
    line = f"{state.fence.opening}\n"
    added = f"{line}\n{state.fence.closing}"
    return line if size(added, room.unit) <= room.limit // 2 else ""


def fits(text: str, state: FenceState, room: PartRoom) -> bool:
    """Returns whether the remaining text fits into one piece."""
    before = opening(state, room)
    if len(before) + len(text) > room.limit:
        return False
    return size(before, room.unit) + size(text, room.unit) <= room.limit


def cut(text: str, state: FenceState, room: PartRoom) -> tuple[TextPiece, FenceState]:
    """Returns the next piece of a text that does not fit, and the state after it."""
    before = opening(state, room)
    hard = reach(text, room.limit - size(before, room.unit), room.unit)
    lines = FenceMap(text[: hard + LOOKAHEAD], state)
    end = max(_end(text, hard, lines, room, before), 1)
    state_after = lines.at(end)
    closing = _closing(text, end, state_after, room)
    room_left = room.limit - size(before, room.unit)
    if not _has_room(text, end, closing, room_left, room.unit):
        closing = ""  # one visible character takes all the room
    return TextPiece(text[:end], before, closing), state_after


class FenceMap:
    """The fences of a text: the open fence at each position."""

    def __init__(self, text: str, state: FenceState) -> None:
        self._starts = [0]
        self._fences = [state.fence]
        self._text = text
        self._fresh = state.fresh
        fence, start, fresh = state.fence, 0, state.fresh
        while (end := text.find("\n", start)) >= 0:
            fence = code_fences.after(text[start:end], fence) if fresh else fence
            start, fresh = end + 1, True
            self._starts.append(start)
            self._fences.append(fence)

    def at(self, index: int) -> FenceState:
        """Returns the state at a position; a fence line takes effect after its end."""
        line = self._line(index)
        start = self._starts[line]
        return FenceState(self._fences[line], index == start and (line > 0 or self._fresh))

    def is_inside(self, index: int) -> bool:
        """Returns whether the position is inside a fence."""
        return self._fences[self._line(index)] is not None

    def may_cut(self, index: int) -> bool:
        """Returns whether a cut at the position neither splits a fence line nor creates one."""
        line = self._line(index)
        start = self._starts[line]
        if index == start:
            # A cut after an opening line would create an empty fence.
            return line == 0 or self._fences[line] is None or self._fences[line - 1] is not None
        text = self._text
        return is_boundary(text, index) and not any(
            code_fences.FENCE_START.match(text, at) for at in (start, index)
        )

    def _line(self, index: int) -> int:
        line = len(self._starts) - 1
        while self._starts[line] > index:
            line -= 1
        return line


def ends(text: str, kind: Break, start: int, stop: int) -> Iterator[int]:
    """Yields the positions of the breaks of a kind between `start` and `stop`."""
    pattern = _PATTERNS[kind]
    while (match := pattern.search(text, start, stop)) is not None:
        yield match.end()
        start = match.start() + 1  # finds overlapping breaks, so that `start` makes no difference


def _end(text: str, hard: int, lines: FenceMap, room: PartRoom, before: str) -> int:
    """Returns the position of the cut: the last good one, outside of fences if possible."""
    room_left = room.limit - size(before, room.unit)

    def is_good(index: int) -> bool:
        closing = _closing(text, index, lines.at(index), room)
        return lines.may_cut(index) and _has_room(text, index, closing, room_left, room.unit)

    def last(kinds: tuple[Break, ...], least: int, *, inside: bool) -> int | None:
        for kind in kinds:
            for index in reversed(list(ends(text, kind, 0, hard))):
                if index >= least and (inside or not lines.is_inside(index)) and is_good(index):
                    return index
        return None

    if not lines.is_inside(hard):
        end = last(room.kinds, room.minimum, inside=False)
    else:  # the cut is before the fence only if enough other text is before it
        end = last(room.kinds, max(room.minimum, room.limit // 2), inside=False)
        end = end or last((Break.NEWLINE, Break.SPACE), 1, inside=True)
    return end or _hard(text, hard, is_good)


def _hard(text: str, hard: int, is_good: Callable[[int], bool]) -> int:
    """Returns the last good position between two visible characters; without one, the last."""
    index = hard
    while index > 0:
        index = last_boundary(text, index)
        if is_good(index):
            return index
        index -= 1
    return last_boundary(text, hard)  # a fence line is longer than the room


def _closing(text: str, end: int, state_after: FenceState, room: PartRoom) -> str:
    if state_after.fence is None:
        return ""
    line = state_after.fence.closing if text[end - 1] == "\n" else f"\n{state_after.fence.closing}"
    return line if opening(state_after, room) else ""


def _has_room(text: str, end: int, closing: str, room_left: int, unit: TextUnit) -> bool:
    if not closing:
        return True  # `end` is within the room
    return size(text[:end], unit) + size(closing, unit) <= room_left
