"""Messages that arrive by HTTP requests, on their way to the inbox of their account."""

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
"""Seconds after which working credentials are looked at again."""


class _Handed(Struct):
    messages: Sequence[InboundMessage]
    done: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None
    is_taken: bool = False


class Intake:
    """Hands messages of requests to the inbox of an account, one after another.

    The account's `run` does `run`, its `posted` does `take`. So nothing is taken once the account
    is closed, and the messages of two requests never overtake each other.
    """

    def __init__(self) -> None:
        self._send: anyio.abc.ObjectSendStream[_Handed] | None = None

    async def run(self, inbox: Inbox) -> None:
        """Hands in what is taken until cancelled."""
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
        """Returns after the inbox has taken all messages.

        Raises:
            BusyError: the account is not connected, or was closed meanwhile.
            Exception: the inbox has not taken one; those before it are taken.
        """
        if not messages:
            return
        handed, send = _Handed(messages), self._send
        if send is None:
            raise BusyError("The account is not connected.")
        try:
            await send.send(handed)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise BusyError("The account was closed before the message was taken.") from None
        await handed.done.wait()
        if handed.error is not None:
            raise handed.error
        if not handed.is_taken:
            raise BusyError("The account was closed before the message was taken.")


async def _hand_in(handed: _Handed, inbox: Inbox) -> None:
    try:
        for message in handed.messages:
            await inbox(message)
        handed.is_taken = True
    except Exception as error:  # noqa: BLE001 - `take` raises it, so that its request is answered
        handed.error = error
    finally:
        handed.done.set()


class PostedAccount(Account):
    """An account whose platform posts its events; it looks after its credentials meanwhile."""

    def __init__(self, host: ChannelHost) -> None:
        super().__init__(host)
        self.intake: Final = Intake()

    async def run(self, inbox: Inbox) -> None:
        """Takes requests and looks after the credentials until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.intake.run, inbox)
            while True:
                seconds = await self.check_credentials()
                await anyio.sleep(seconds)

    async def check_credentials(self) -> float:
        """Asks the platform for the account; returns after how many seconds to ask again."""
        try:
            name = await self.own_name()
        except (PlatformError, msgspec.DecodeError) as error:
            return self.failed(error)
        self.connected(name)
        return LOOK_WAIT

    async def own_name(self) -> str:
        """Returns the name of the account on the platform, once its credentials are proven.

        Raises:
            PlatformError: the platform refuses them, or does not answer.
            DecodeError: the platform answers what cannot be read.
        """
        raise NotImplementedError

    async def probe(self) -> AccountState:
        """Returns the state after asking the platform for the account."""
        await self.check_credentials()
        return self.state
