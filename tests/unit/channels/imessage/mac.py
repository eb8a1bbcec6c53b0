"""A Mac of ours and an account at it, for the tests of the iMessage adapter."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from skerry.channels.imessage import wire
from skerry.channels.imessage.adapter import IMessageAdapter, open_account
from skerry.channels.imessage.config import IMessageAccount
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, OutboundPart
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.bluebubbles_server import PASSWORD, BlueBubblesServer
from skerry.testing.clock import FakeClock

CHAT = "iMessage;-;+491701"
SECRET = "a-secret-of-ours"  # noqa: S105 - of no gateway
TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, CHAT), "GUID-2")
DAY = 86_400_000
NOW = 4_000_000_000_000


class Rig:
    """A Mac, and an account with a clock and a cursor that outlive its adapters."""

    def __init__(self, server: BlueBubblesServer) -> None:
        self.server = server
        self.clock = FakeClock(NOW)
        self.host = ChannelHost(AccountId("default"), self.clock)

    def adapter(self, **settings: Any) -> IMessageAdapter:
        file = {"password": PASSWORD, "apiRoot": self.server.root, "pollSeconds": 0.2}
        fields = {**file, "webhookSecret": SECRET, **settings}
        return open_account(IMessageAccount.model_validate(fields), self.host)


@asynccontextmanager
async def running(adapter: IMessageAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        await connected(adapter)
        yield messages
        tasks.cancel_scope.cancel()


async def connected(adapter: IMessageAdapter) -> None:
    with anyio.fail_after(60):
        while adapter.state.state is not ConnectionState.CONNECTED:  # noqa: ASYNC110 - a state
            await anyio.sleep(0.01)


async def taken(messages: list[InboundMessage], count: int) -> None:
    with anyio.fail_after(60):
        while len(messages) < count:  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.01)


def part(text: str, more: Additions = PLAIN, number: int = 0, to: ReplyTo = TO) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, number, to, text, more)
