"""Accounts whose platform posts messages by HTTP, and the queue to their inbox."""

from collections.abc import Sequence
from typing import Final

import anyio
import anyio.abc
import msgspec
from msgspec import Struct, field

from skerry.model.errors import BusyError
from skerry.model.inbound import InboundMessage
from skerry.ports.channel import AccountState, Inbox
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost

__all__ = ["Intake", "PostedAccount"]

LOOK_WAIT: Final = 900.0
"""Seconds between two checks of working credentials."""


class _Handed(Struct):
    messages: Sequence[InboundMessage]
    done: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None
    is_taken: bool = False


class Intake:
    """Passes messages of HTTP requests to the inbox of an account, in order.

    The account calls `run` in its `run`, and `take` in its `posted`. So no message is accepted
    after the account was closed, and messages of two requests keep their order.
    """

    def __init__(self) -> None:
        self._send: anyio.abc.ObjectSendStream[_Handed] | None = None

    async def run(self, inbox: Inbox) -> None:
        """Passes the messages of `take` to the inbox until cancelled."""
        send, receive = anyio.create_memory_object_stream[_Handed](0)
        self._send = send
        try:
            async with send, receive:
                async for handed in receive:
                    await _hand_in(handed, inbox)
        finally:
            if self._send is send:
                self._send = None

    async def take(self, messages: Sequence[InboundMessage]) -> None:
        """Queues messages, and returns after the inbox has stored all of them.

        Raises:
            BusyError: the account is not connected, or was closed meanwhile.
            Exception: the inbox raised it for a message; the earlier ones are stored.
        """
        if not messages:
            return
        handed, send = _Handed(messages), self._send
        if send is None:
            raise BusyError("The account is not connected.")
        try:
            await send.send(handed)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise BusyError("The account was closed before the message was stored.") from None
        await handed.done.wait()
        if handed.error is not None:
            raise handed.error
        if not handed.is_taken:
            raise BusyError("The account was closed before the message was stored.")


async def _hand_in(handed: _Handed, inbox: Inbox) -> None:
    try:
        for message in handed.messages:
            await inbox(message)
        handed.is_taken = True
    except Exception as error:  # noqa: BLE001 - `take` raises it for its request
        handed.error = error
    finally:
        handed.done.set()


class PostedAccount(Account):
    """An account whose platform posts its events; it checks its credentials periodically."""

    def __init__(self, host: ChannelHost) -> None:
        super().__init__(host)
        self.intake: Final = Intake()

    async def run(self, inbox: Inbox) -> None:
        """Accepts requests and checks the credentials until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.intake.run, inbox)
            while True:
                seconds = await self.check_credentials()
                await anyio.sleep(seconds)

    async def check_credentials(self) -> float:
        """Requests the account from the platform; returns the seconds until the next check."""
        try:
            name = await self.own_name()
        except (PlatformError, msgspec.DecodeError) as error:
            return self.failed(error)
        self.connected(name)
        return LOOK_WAIT

    async def own_name(self) -> str:
        """Requests and returns the name of the account on the platform.

        Raises:
            PlatformError: the platform refused the credentials, or did not answer.
            DecodeError: the response is invalid.
        """
        raise NotImplementedError

    async def probe(self) -> AccountState:
        """Checks the credentials and returns the state of the account."""
        await self.check_credentials()
        return self.state
