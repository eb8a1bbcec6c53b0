"""Provenance marks of notes in Markdown: origin, conversation and time (pure).

A note is an item of a list with a comment at its end, which is invisible in rendered Markdown:
`- The text. <!-- skerry:4f2a9c01be owner agent:main:main 2026-11-22T08:24Z -->`. The id is a hash
of the note and its provenance, so that a later change of the note is detected.
"""

import re
import unicodedata
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from skerry.model.origin import Origin

BULLET: Final = "- "
INDENT: Final = "  "
MARK: Final = re.compile(
    r"(?<![ \t])[ \t]*+<!-- skerry:(?P<id>[0-9a-f]{10}) (?P<origin>[a-z]+) (?P<conversation>\S+)"
    r" (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\dZ) -->[ \t]*$",
    re.MULTILINE,
)
"""Mark that `item` appends to a note: its id, its origin, its conversation, and its time."""
_ORIGINS: Final = {origin.value: origin for origin in Origin}
_ITEM: Final = re.compile(r"[-*+] +")
_ALLOWED_CONTROLS: Final = frozenset("\n\t")


class Provenance(Struct, frozen=True):
    """Origin, conversation and time of a note."""

    origin: Origin
    conversation: str
    """Key of the conversation; `gateway` for a person at the gateway."""
    at: str
    """Time, such as `2026-11-22T08:24Z`."""

    @classmethod
    def now(cls, origin: Origin, conversation: str, now_ms: int) -> "Provenance":
        """Returns the provenance of a note that is written at `now_ms`."""
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        return cls(origin, conversation, f"{at:%Y-%m-%dT%H:%MZ}")

    def id_of(self, text: str) -> str:
        """Returns the id of the text as a note."""
        parts = f"{self.origin}\0{self.conversation}\0{self.at}\0{text}"
        return sha256(parts.encode()).hexdigest()[:10]


def tidy(text: str) -> str:
    """Returns the text in the form of a note: without empty lines and comments."""
    lines = (splitline.strip() for splitline in clean(text).splitlines())
    return "\n".join(line for line in lines if line).replace("<!--", "&lt;!--")


def item(text: str, provenance: Provenance) -> list[str]:
    """Returns the lines of a note; `text` is a result of `tidy`."""
    name, conversation = provenance.id_of(text), quote(provenance.conversation, safe=":-_.@+")
    mark = f"<!-- skerry:{name} {provenance.origin} {conversation} {provenance.at} -->"
    first, *continuation = text.split("\n")
    lines = [BULLET + first, *(INDENT + line for line in continuation)]
    return [*lines[:-1], f"{lines[-1]} {mark}"]


def clean(text: str) -> str:
    """Returns the text without invisible characters: control, format and tag characters."""
    unseen = "".join(
        char
        for char in set(text)
        - _ALLOWED_CONTROLS  # even a long text has few different characters, so this is cheap
        if unicodedata.category(char) in {"Cc", "Cf"}
    )
    return text.translate(str.maketrans("", "", unseen)) if unseen else text


def items(text: str, provenance: Provenance) -> list[str]:
    """Returns the lines of Markdown as notes.

    Each list item with its indented lines becomes a note, and so does every other line except
    headings, which are kept.
    """
    lines: list[str] = []
    open_: list[str] = []

    def close() -> None:
        if open_:
            lines.extend(item(tidy("\n".join(open_)), provenance))
            open_.clear()

    for line in clean(text).splitlines():
        bare = _ITEM.sub("", line.strip(), count=1)
        if not (open_ and line.startswith((" ", "\t"))):
            close()
        if bare.startswith("#"):
            close()
            lines.append(tidy(bare))
        elif bare:
            open_.append(bare)
    close()
    return lines


def origins(text: str) -> set[Origin]:
    """Returns the origins of the notes that end in the text; an unknown origin is `stranger`."""
    return {_ORIGINS.get(mark["origin"], Origin.STRANGER) for mark in MARK.finditer(text)}
