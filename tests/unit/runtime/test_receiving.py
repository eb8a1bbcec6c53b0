"""Keeping one account receiving."""

from dataclasses import dataclass, field

import anyio
import pytest

from skerry.infra import supervise
from skerry.infra.backoff import Backoff
from skerry.model.errors import BusyError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.ports.channel import Inbox
from skerry.runtime.delivery import receive
from skerry.testing.channel import CHANNEL

ACCOUNT = AccountId("default")


@dataclass
class Failing:
    """An adapter that raises the errors of the test in turn, then waits."""

    failures: list[Exception]
    runs: int = 0
    channel: ChannelId = CHANNEL
    account: AccountId = ACCOUNT
    text_limit: int = 4000
    text_unit: TextUnit = TextUnit.CHARACTERS
    waiting: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, inbox: Inbox) -> None:
        del inbox
        self.runs += 1
        if self.failures:
            raise self.failures.pop(0)
        self.waiting.set()
        await anyio.sleep_forever()

    async def send(self, part: OutboundPart) -> Receipt:
        raise AssertionError(part)

    async def typing(self, to: ReplyTo) -> None:
        raise AssertionError(to)

    async def settle(self, part: OutboundPart) -> Settlement:
        raise AssertionError(part)


async def ignore(arrived: InboundMessage) -> None:
    raise AssertionError(arrived)


async def test_an_adapter_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "RESTARTS", Backoff(base=0.01, cap=60.0))
    adapter = Failing([OSError("gone"), ValueError("strange")])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive, adapter, ignore)
            await adapter.waiting.wait()
            tasks.cancel_scope.cancel()
    assert adapter.runs == 3


async def test_a_gateway_that_stops_ends_it_quietly() -> None:
    adapter = Failing([BusyError("stopping")])
    with anyio.fail_after(60):
        await receive(adapter, ignore)
    assert adapter.runs == 1
