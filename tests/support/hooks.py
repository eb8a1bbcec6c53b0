"""Handlers, results and messages for tests of hooks."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from skerry.hooks.points import Point
from skerry.hooks.runner import Handler
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import (
    TextBlock,
    ToolCall,
    ToolResultMessage,
)
from skerry.model.run import RunRequest
from skerry.store import outbox
from tests.support.core import Core, request

READ = ToolCall("c1", "read", {"path": "note.txt"})
CHANNEL, ACCOUNT = ChannelId("memory"), AccountId("default")


def on(point: Point[Any, Any], call: Any, priority: int = 0) -> None:
    point.add(Handler("test", call, priority))


def returns(value: object) -> Any:
    async def handler(_: object) -> object:
        return value

    return handler


def text(words: str, call_id: str = "c1", *, error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", (TextBlock(words),), error, 0)


def from_alice(words: str) -> RunRequest:
    to = ReplyTo(CHANNEL, ACCOUNT, Peer(PeerKind.DIRECT, "alice"), words)
    return replace(request(words), reply_to=to)


async def parts(core: Core) -> list[str]:
    waiting = await core.store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))
    return [part.part.text for part in waiting]


def results(messages: Sequence[object]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]
