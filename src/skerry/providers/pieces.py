"""Parts shared by the builders of replies: pieces, bounds, counts and arguments (pure)."""

import re
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.infra.untrusted_json import DEEPEST, UNREADABLE, is_deep
from skerry.model.errors import ModelRequestError, ModelStreamCutError
from skerry.model.message import Block, ToolCall
from skerry.ports.model import ModelReply

T = TypeVar("T")

RAW_ARGUMENTS: Final = "_raw_arguments"
"""Key under which a tool call's arguments stand as text when they are no JSON object. No tool has
such a parameter, so its check of the arguments tells the model what it wrote."""

TEXT_LIMIT: Final = 1024 * 1024
"""Characters of one answer, with its tool calls: more than any model means to say. Clients get the
text so far again and again, so an answer without end would cost its square."""

OWN_ID: Final = "own_call_"
"""Begins the ids of calls that came without a usable one."""

REPLY_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one answer with its names, ids and signatures."""

_LONGEST: Final = 64  # characters of an id or a name that OpenAI takes, which may be asked next
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MOST_TOKENS: Final = 1 << 40


class Heard(Struct, frozen=True):
    """Text and thinking that one event added."""

    text: str = ""
    thinking: str = ""


class Limit:
    """Counts the characters of an answer of `provider`."""

    __slots__ = ("_provider", "_size")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._size = 0

    def grow(self, characters: int) -> None:
        """Counts more.

        Raises:
            ModelRequestError: the answer is longer than `TEXT_LIMIT`.
        """
        self._size += characters
        if self._size > TEXT_LIMIT:
            raise ModelRequestError(
                f"{self._provider} sent an answer of more than {TEXT_LIMIT} characters."
            )


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, provider: str) -> T:
    """Decodes a piece of an answer.

    Raises:
        ModelStreamCutError: it is not readable.
    """
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise ModelStreamCutError(
            f"{provider} sent a piece of its answer that is not readable: {error}"
        ) from error


def parse_arguments(text: str) -> dict[str, Any]:
    """Returns a tool call's arguments; what is no JSON object stands under `RAW_ARGUMENTS`."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return {RAW_ARGUMENTS: text}


def sound(reply: ModelReply, number: int, provider: str) -> ModelReply:
    """Returns the reply with calls that every API takes back, each with an id of its own.

    Arguments that are nested too deep are left out, which the tool tells the model.

    `place` is a number that no other response of the conversation has.

    Raises:
        ModelRequestError: it has more than `REPLY_LIMIT` bytes.
    """
    content = [_flat(block) for block in reply.content]
    if len(msgspec.json.encode(content)) > REPLY_LIMIT:
        raise ModelRequestError(f"{provider} sent an answer of more than {REPLY_LIMIT} bytes.")
    used_ids = {""}
    for index, block in enumerate(content):
        if isinstance(block, ToolCall):
            usable = block.id not in used_ids and len(block.id) <= _LONGEST
            call_id = block.id if usable else f"{OWN_ID}{number}_{index}"
            used_ids.add(block.id)
            # No tool has another name; a call of none would make every later request fail.
            name = _NOT_IN_NAME.sub("_", block.name)[:_LONGEST] or "unnamed"
            content[index] = replace(block, id=call_id, name=name)
    return ModelReply(tuple(content), reply.stop_reason, reply.usage)


def _flat(block: Block) -> Block:
    """Returns a call without arguments that nobody could redact or sends again."""
    if isinstance(block, ToolCall) and is_deep(block.arguments):
        return replace(block, arguments={RAW_ARGUMENTS: f"(more than {DEEPEST} levels deep)"})
    return block


def count(number: int | None) -> int:
    """Returns a number that the store can add up, whatever the server says."""
    return min(max(number or 0, 0), _MOST_TOKENS)
