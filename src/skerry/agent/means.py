"""What tools and plugins are told of who asks, and of whose words the model reads (pure)."""

from collections.abc import Iterable
from typing import Final

from skerry.agent.workspace import is_private
from skerry.model.caller import Caller, chat_of
from skerry.model.message import AssistantMessage, Message, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.run import RunRequest

_OWN: Final = frozenset({Origin.OWNER})
_REMEMBERED: Final = frozenset({Origin.OWNER, Origin.MEMORY})


def caller_of(request: RunRequest) -> Caller:
    """Return who asks with a request."""
    to = request.reply_to
    return Caller(
        request.key,
        chat_of(request.key, to.peer.kind if to else None),
        request.origin,
        is_private(request),
        to.channel if to else "",
    )


def taint(messages: Iterable[Message]) -> frozenset[Origin]:
    """Return the origins of what the model reads and neither its owner nor it itself has said.

    What a tool found in the owner's memory counts as the owner's. A summary of what was said long
    ago does not: nobody can tell any more what it was made of.
    """
    return frozenset(origin for one in messages if (origin := _foreign(one)) is not None)


def _foreign(message: Message) -> Origin | None:
    origin = message.origin
    if isinstance(message, AssistantMessage):
        return origin
    clean = _REMEMBERED if isinstance(message, ToolResultMessage) else _OWN
    return None if origin in clean else origin
