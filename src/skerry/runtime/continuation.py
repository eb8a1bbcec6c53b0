"""Continues an answer that a restart interrupted, after the part that was sent, without repetition.

A message on a platform cannot be taken back, and a model that is asked again answers in other
words. So the request contains the sent part of the answer, and the response is the rest.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from skerry.model import message
from skerry.model.message import AssistantMessage, Block, TextBlock, ToolCall, Usage
from skerry.ports.model import History, ModelRequest

GO_ON: Final = (
    "[The gateway restarted and cut your answer off. The person has read what stands above, to its"
    " last character. Go on exactly there, as if nothing had happened: repeat nothing, do not begin"
    " anew, do not mention the restart.]"
)
"""Instruction to the model after the sent part of its answer. It is not stored in a transcript."""
SEAM: Final = 16
"""Least number of characters that count as a repetition; fewer may be coincidence."""


class Seam:
    """Removes, from the text that follows `before`, the beginning that repeats the end of `before`.

    Text that may still be a repetition is held back, at most as much as `before` is long. The text
    of a model that does not repeat is delayed by a few characters.
    """

    def __init__(self, before: str) -> None:
        self._before = before
        self._pending = ""

    def feed(self, delta: str) -> str:
        """Adds the next text; returns the text that is new."""
        if not self._before:
            return delta
        self._pending += delta
        may_repeat = self._pending in self._before or not self._pending.strip("\n")
        return "" if may_repeat else self.end()

    def end(self) -> str:
        """Returns the new part of the text held back; called when no repetition can follow."""
        text, before = self._pending, self._before
        self._pending = self._before = ""
        return unrepeated(before, text)


def overlap(before: str, after: str) -> int:
    """Returns the number of characters at the start of `after` that repeat the end of `before`."""
    for size in range(min(len(before), len(after)), SEAM - 1, -1):
        if before.endswith(after[:size]):
            return size
    return 0


def unrepeated(before: str, after: str) -> str:
    """Returns the part of `after` that is new after `before`; a paragraph break counts once."""
    repeated = overlap(before, after)
    if not repeated and before.endswith("\n"):
        return after.lstrip("\n")
    return after[repeated:]


def joined(before: str, content: Sequence[Block]) -> tuple[Block, ...]:
    """Returns the content of an answer with the text sent before, joined into one text block."""
    if not before:
        return tuple(content)
    blocks = list(content)
    for index, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            blocks[index] = replace(block, text=before + unrepeated(before, block.text))
            return tuple(blocks)
    index = next((at for at, part in enumerate(blocks) if isinstance(part, ToolCall)), len(blocks))
    return (*blocks[:index], TextBlock(before), *blocks[index:])


def going_on(request: ModelRequest, sent: str) -> ModelRequest:
    """Returns the request for the rest of an answer; `request` itself if nothing was sent."""
    if not sent.strip():
        return request
    messages = request.history.messages
    at = messages[-1].timestamp if messages else 0
    model = request.model
    # Some providers refuse white space at the end of an assistant's message.
    begun = (TextBlock(sent.rstrip()),)
    answer = AssistantMessage(begun, model.api, model.provider, model.id, Usage(), "stop", at)
    return replace(request, history=History([*messages, answer, message.user(GO_ON, at)]))
