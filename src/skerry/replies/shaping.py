"""Conversion of a model's text to the text for people, streamed or whole (pure)."""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.model.message import (
    COMMAND,
    AssistantMessage,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    storable,
)
from skerry.ports.model import ModelReply
from skerry.replies.tags import ReplyMarks, TagFilter

SILENT: Final = "NO_REPLY"
_EDGE: Final = " \t\r\n`*\"'.!\u2026\u201c\u201d\u2018\u2019"
"""Characters that may surround the silent word."""
_OBJECT: Final = '{"action":"NO_REPLY"}'
_MAX_SILENT_CHARS: Final = 64
"""Limit on the characters of a silent reply, with the characters around the word."""
_TAIL: Final = re.compile(
    r"(?<!\w)N(?:O(?:_(?:R(?:E(?:P(?:L(?:Y[\s`*\"'.!]{0,8})?)?)?)?)?)?)?\Z"  # a prefix, or whole
)
_CERTAIN_LETTERS: Final = 3
"""Number of letters from which on a prefix is certainly the silent word."""


def is_silent(text: str) -> bool:
    """Returns whether the text is only the silent word."""
    return text.strip(_EDGE) == SILENT or "".join(text.split()) == _OBJECT


class SilenceFilter:
    """Passes a streamed text through, and removes the silent word from its end."""

    __slots__ = ("_before", "_open", "_pending", "silent")

    def __init__(self) -> None:
        self._before = ""
        """The last released character: after a letter, the silent word does not count."""
        self._pending = ""
        self._open = False
        """True after other text, so that the reply is not silent."""
        self.silent = False
        """True if the ended reply is silent."""

    def feed(self, text: str) -> str:
        """Returns the text that may be sent now."""
        if self._open and not self._pending and "N" not in text:
            self._before = text[-1:] or self._before
            return text
        self._pending += text
        if not self._open:
            if _may_be_silent(self._pending):
                return ""
            self._open = True
        start = len(self._before)
        match = _TAIL.search(self._before + self._pending, start)
        end = match.start() - start if match else len(self._pending)
        released, self._pending = self._pending[:end], self._pending[end:]
        self._before = released[-1:] or self._before
        return released

    def end(self, *, cut: bool) -> str:
        """Returns the pending text to send; `cut` is true if the reply was interrupted."""
        text, self._pending = self._pending, ""
        word = text.strip(_EDGE)
        if not self._open and is_silent(text):
            self.silent = True
            return ""
        begun = bool(word) and SILENT.startswith(word)
        if word == SILENT or (cut and begun and (len(word) >= _CERTAIN_LETTERS or not self._open)):
            return ""
        return text


def _may_be_silent(text: str) -> bool:
    """Returns whether a reply that begins with the text may be silent."""
    if len(text) > _MAX_SILENT_CHARS:
        return False
    word = text.lstrip(_EDGE)
    if word and word[0] not in "N{":
        return False  # most replies
    if SILENT.startswith(word) or is_silent(text):
        return True
    return word.startswith("{") and _OBJECT.startswith("".join(word.split()))


_PLAIN: Final = re.compile(r"[<\[{]|MEDIA:|" + SILENT)
"""Start of anything that may need shaping."""
_THINKS: Final = re.compile(r"<\s{0,3}/?\s{0,3}(?:think|thought|antthinking|final)", re.IGNORECASE)

_COMPLETE: Final = frozenset({"stop", "length", "toolUse"})

Show = Callable[[str], str]
"""Function that returns the text in place of a file that the model names."""


def file_placeholder(reference: str) -> str:
    """Returns the placeholder of a file that cannot be attached."""
    return f"📎 {PurePath(reference).name or reference}"


class ShapedText(Struct, frozen=True):
    """Text of one response for the person, and its reply marks."""

    text: str
    silent: bool = False
    marks: ReplyMarks | None = None


class Shaper:
    """Shapes one streamed response."""

    __slots__ = ("_silence", "_tags")

    def __init__(
        self, think: Callable[[str], object] = lambda _: None, show: Show = file_placeholder
    ) -> None:
        """Takes the receiver of the thoughts, and the function that replaces a file."""
        self._tags = TagFilter(think, show)
        self._silence = SilenceFilter()

    @property
    def silent(self) -> bool:
        """Returns whether the ended response is silent."""
        return self._silence.silent

    @property
    def marks(self) -> ReplyMarks:
        """Returns the reply marks found so far."""
        return self._tags.marks

    def feed(self, delta: str) -> str:
        """Adds a delta; returns the text that can be shown now."""
        return self._silence.feed(self._tags.feed(delta))

    def end(self, *, cut: bool = False) -> str:
        """Returns the pending text; `cut` is true if the response was interrupted."""
        return self._silence.feed(self._tags.end()) + self._silence.end(cut=cut)


def shaped(text: str, show: Show = file_placeholder) -> ShapedText:
    """Shapes a whole response, with the same result as a streamed one."""
    if _PLAIN.search(text) is None:
        return ShapedText(text)
    shaper = Shaper(show=show)
    visible = shaper.feed(text) + shaper.end()
    return ShapedText(visible, shaper.silent, shaper.marks)


def as_shown(message: Message) -> Message:
    """Returns a message of the transcript as people read it.

    Interrupted responses were stored as shown, and messages of the gateway need no shaping.
    """
    if not isinstance(message, AssistantMessage) or message.stop_reason not in _COMPLETE:
        return message
    text = message.text
    if message.provider == COMMAND[0] or _PLAIN.search(text) is None:
        return message
    read = shaped(text).text
    content: list[Block] = [block for block in message.content if not isinstance(block, TextBlock)]
    if read.strip():
        index = next(n for n, block in enumerate(message.content) if isinstance(block, TextBlock))
        content.insert(index, TextBlock(read))
    return replace(message, content=tuple(content))


def split_thoughts(text: str) -> tuple[str, str] | None:
    """Returns a response without its thoughts, and the thoughts; None if it has none.

    All other text is unchanged, for the transcript, which is sent to the model.
    """
    if _THINKS.search(text) is None:
        return None
    thoughts: list[str] = []
    tags = TagFilter(thoughts.append, None)
    visible = tags.feed(text) + tags.end()
    return visible, "".join(thoughts)


def without_nul(reply: ModelReply) -> ModelReply:
    """Returns the reply with texts that every database can store, without NUL."""
    if not any("\0" in block.text for block in reply.content if isinstance(block, TextBlock)):
        return reply
    content = (
        TextBlock(storable(block.text)) if isinstance(block, TextBlock) else block
        for block in reply.content
    )
    return replace(reply, content=tuple(content))


def without_thoughts(reply: ModelReply) -> ModelReply:
    """Returns the reply with the thoughts of its text moved to thinking blocks."""
    content: list[Block] = []
    thinks = False
    for block in reply.content:
        parts = split_thoughts(block.text) if isinstance(block, TextBlock) else None
        if parts is None:
            content.append(block)
            continue
        thinks = True
        text, thoughts = parts
        if thoughts.strip():
            content.append(ThinkingBlock(thoughts))
        if text.strip():
            content.append(TextBlock(text))
    return replace(reply, content=tuple(content)) if thinks else reply
