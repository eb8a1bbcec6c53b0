"""Transcript entries of a run's messages, after the hooks that may change or block them.

Every call keeps its result: a blocked result leaves a stand-in, and a blocked message with tool
calls takes their results with it.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BeforeMessageWrite, ToolResultPersist
from skerry.model.message import AssistantMessage, Message, TextBlock, ToolResultMessage
from skerry.model.origin import Origin

M = TypeVar("M", bound=Message)
WITHHELD: Final = "The result was withheld from the transcript."


class Writing(Struct):
    """Asks the hooks about each entry of one run."""

    hooks: Hooks
    changed: bool = False
    """True when the transcript differs from the messages."""
    _kept: dict[str, tuple[ToolResultMessage, ToolResultMessage]] = field(default_factory=dict)
    """Results by call: one that `tool_result_persist` has seen, and its entry in the transcript."""
    _dropped: frozenset[str] = frozenset()
    """Calls of the last response, if that was blocked."""

    async def entries(self, messages: Sequence[Message], context: RunContext) -> Sequence[Message]:
        """Returns the messages to write in place of `messages`."""
        persist, write = self.hooks.tool_result_persist, self.hooks.before_message_write
        if not (write.handlers or persist.handlers or self._kept or self._dropped):
            return messages
        written: list[Message] = []
        for message in messages:
            entry = await self._entry(message, context)
            if entry is not None:
                written.append(entry)
            self.changed |= entry is not message
        return written

    async def persist(
        self, result: ToolResultMessage, context: RunContext, *, synthetic: bool = False
    ) -> ToolResultMessage:
        """Returns the result as the transcript is to have it."""
        point = self.hooks.tool_result_persist
        if not point.handlers:
            return result
        draft = ToolResultPersist(
            context=context,
            tool_name=result.tool_name,
            tool_call_id=result.tool_call_id,
            message=result,
            is_synthetic=synthetic,
        )
        return marked((await point.run(draft)).message, result)

    def keep(self, result: ToolResultMessage, stored: ToolResultMessage) -> None:
        """Notes what the transcript is to have of a result that is not written yet."""
        if self.hooks.tool_result_persist.handlers:
            self._kept[result.tool_call_id] = result, stored

    async def _entry(self, message: Message, context: RunContext) -> Message | None:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in self._dropped:
                return None
            result, stored = self._kept.get(message.tool_call_id, (None, message))
            if result is not message:  # models give one id to several calls
                stored = await self.persist(message, context, synthetic=True)
            message = stored
        blocked = False
        if self.hooks.before_message_write.handlers:
            draft = BeforeMessageWrite(context=context, message=message)
            draft = await self.hooks.before_message_write.run(draft)
            message, blocked = marked(draft.message, message), draft.blocked
        match message:
            case AssistantMessage():
                calls = (call.id for call in message.tool_calls)
                self._dropped = frozenset(calls) if blocked else frozenset()
            case ToolResultMessage() if blocked:
                withheld = (TextBlock(WITHHELD),)
                return msgspec.structs.replace(message, content=withheld, origin=Origin.PLUGIN)
        return None if blocked else message


def marked(entry: M, said: M) -> M:
    """Returns the entry; where it is not what was said, it is the plugin's, whatever it says."""
    if entry is said or entry == said:
        return said
    return msgspec.structs.replace(entry, origin=Origin.PLUGIN)
