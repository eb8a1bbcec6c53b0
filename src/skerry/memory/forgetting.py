"""Takes what is to be forgotten out of Markdown files, and with it the notes that are all of it."""

import errno
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.infra.beneath import Beneath, EscapeError, Rules
from skerry.memory.files import MAX_BYTES, Places, UnreadableError, outside, read, scan
from skerry.memory.notes import notes
from skerry.model.forgotten import ForgottenLine
from skerry.model.noted import item, tidy
from skerry.model.redaction import Redaction

_TRIES: Final = 3
"""Where a person, or a run, writes into the same file."""
_SHOWN: Final = 300
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What was taken out of the files, or would be."""

    lines: Sequence[ForgottenLine]
    left: Sequence[tuple[str, str]]
    """Files in which it stays, each with the reason."""


@dataclass(frozen=True, slots=True)
class Papers:
    """The files of one agent in which something may stand. Its methods block."""

    places: Places
    also: Collection[str]
    """Names at the top of the workspace that are no memory, and are read by each run."""
    rules: Rules | None
    extra: bool = False
    """Whether the extra paths are the agent's too: else they are only looked at."""

    def find(self, redaction: Redaction) -> Cleaning:
        """Return where it stands."""
        own, shared, left = self._holding(redaction)
        lines = [line for path, text in own for line in _lines(path, text, redaction)]
        return Cleaning(lines, [*left, *((path, _EXTRA) for path, _ in shared)])

    def clean(self, redaction: Redaction) -> Cleaning:
        """Take it out; a file keeps its mode, and is changed whole or not at all."""
        own, shared, failed = self._holding(redaction)
        left = [*failed, *((path, _EXTRA) for path, _ in shared)]
        lines: list[ForgottenLine] = []
        for path, text in own:
            found = list(_lines(path, text, redaction))
            try:
                self._rewrite(path, redaction)
            except (EscapeError, UnreadableError, OSError) as error:
                left.append((path, _reason(error)))
            else:
                lines += found
        return Cleaning(lines, left)

    def _holding(
        self, redaction: Redaction
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
        """Return the agent's files that hold it, those that are not its own, and what failed."""
        there = scan(self.places)
        own = set(scan(Places(self.places.workspace)).found)
        left = list(there.failed)
        found: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        for path in [*there.found, *(one for one in self.also if one not in there.found)]:
            try:
                text, _ = read(self.places, path, time.time_ns())
            except UnreadableError as error:
                if path in there.found:
                    left.append((path, str(error)))
                continue
            if redaction.holds(text):
                is_own = self.extra or path in own or path in self.also
                found[not is_own].append((path, text))
        return *found, left

    def _rewrite(self, path: str, redaction: Redaction) -> None:
        folder, name = self.places.workspace, path
        if path.startswith("/"):
            folder, name = outside(self.places, path)

        def change(old: bytes | None) -> bytes:
            if old is None:
                raise UnreadableError("it went meanwhile")
            text = old.decode()
            return without(text, redaction).encode()

        for left in reversed(range(_TRIES)):
            try:
                Beneath(folder, self.rules).replace(name, change, most=MAX_BYTES)
            except OSError as error:
                if error.errno != errno.ESTALE or not left:
                    raise
            else:
                return


_EXTRA: Final = "it is an extra path, which others may use too"


def without(content: str, redaction: Redaction) -> str:
    """Return the Markdown without the statements (pure).

    A note that says nothing else goes with what is known of it; another gets a new id, since the id
    is made of the words.
    """
    lines = content.splitlines(keepends=True)
    for note in reversed(notes(content)):
        if not redaction.holds(note.text):
            continue
        rest = tidy(redaction.document(note.text))
        end = "\r\n" if lines[note.last - 1].endswith("\r\n") else "\n"
        made = [one + end for one in item(rest, note.provenance)] if rest else []
        lines[note.first - 1 : note.last] = made
    return redaction.document("".join(lines))


def _lines(path: str, text: str, redaction: Redaction) -> Iterator[ForgottenLine]:
    for begin, end in redaction.spans(text):
        number = len(text[:begin].splitlines()) or 1
        if begin and text[begin - 1] in "\r\n":
            number += 1
        yield ForgottenLine(path, number, " ".join(text[begin:end].split())[:_SHOWN])


def _reason(error: Exception) -> str:
    match error:
        case EscapeError():
            return error.reason
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
