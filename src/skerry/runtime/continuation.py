"""An answer that a restart cut goes on where the person has read it: one answer, nothing twice.

What left over a platform cannot be taken back, and a model that is asked afresh says it in other
words. So the model is shown what was sent of its answer, and what it then says is the rest.
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
"""Instruction to the model after the beginning of its own answer. No transcript has it."""
SEAM: Final = 16
"""Number of repeated characters at the seam from which they count as a repetition; fewer may be
chance."""


class Seam:
    """Lets what follows a text through, less what it repeats of the text's end.

    It holds back what could still turn out to be a repetition, which is as long as the text at
    most; a model that does not repeat is held back for some characters.
    """

    def __init__(self, before: str) -> None:
        self._before = before
        self._held = ""

    def feed(self, delta: str) -> str:
        """Takes what comes next; returns what is new."""
        if not self._before:
            return delta
        self._held += delta
        may_repeat = self._held in self._before or not self._held.strip("\n")
        return "" if may_repeat else self.end()

    def end(self) -> str:
        """Returns the held text that is new: nothing follows, or it is no repetition."""
        text, before = self._held, self._before
        self._held = self._before = ""
        return unrepeated(before, text)


def overlap(before: str, after: str) -> int:
    """Returns how many characters at the beginning of `after` repeat the end of `before`."""
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
    """Returns the content of an answer whose beginning was said before: as one text."""
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
    """Returns the request that asks for the rest of an answer; itself where nothing was said."""
    if not sent.strip():
        return request
    messages = request.history.messages
    at = messages[-1].timestamp if messages else 0
    model = request.model
    # Some providers refuse white space at the end of what an assistant said.
    begun = (TextBlock(sent.rstrip()),)
    answer = AssistantMessage(begun, model.api, model.provider, model.id, Usage(), "stop", at)
    return replace(request, history=History([*messages, answer, message.user(GO_ON, at)]))
