"""Messages of requests reach the inbox one after another, and only while the account runs."""

from itertools import count

import anyio
import anyio.lowlevel
import pytest

from skerry.model.errors import BusyError, StateError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.sdk.channel_posts import Intake


def message(text: str) -> InboundMessage:
    peer = Peer(PeerKind.DIRECT, "ann")
    return InboundMessage(ChannelId("x"), AccountId("default"), peer, "ann", text, text, 0)


async def test_two_requests_never_mix_their_messages() -> None:
    taken: list[str] = []

    async def inbox(one: InboundMessage) -> None:
        await anyio.lowlevel.checkpoint()
        taken.append(one.text)

    intake = Intake()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(intake.run, inbox)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as requests:
            for name in "ab":
                requests.start_soon(intake.take, [message(f"{name}{n}") for n in range(3)])
        tasks.cancel_scope.cancel()
    assert taken in (["a0", "a1", "a2", "b0", "b1", "b2"], ["b0", "b1", "b2", "a0", "a1", "a2"])


async def test_a_failure_belongs_to_its_request() -> None:
    calls = count()

    async def inbox(one: InboundMessage) -> None:
        del one
        if next(calls) == 0:
            raise StateError("no room")

    intake = Intake()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(intake.run, inbox)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(StateError):
            await intake.take([message("a")])
        await intake.take([message("a")])
        tasks.cancel_scope.cancel()


async def test_a_request_ends_when_its_account_is_closed() -> None:
    begun = anyio.Event()

    async def inbox(one: InboundMessage) -> None:
        del one
        begun.set()
        await anyio.sleep_forever()

    intake = Intake()
    refused: list[str] = []

    async def request(text: str) -> None:
        with pytest.raises(BusyError):
            await intake.take([message(text)])
        refused.append(text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as requests, anyio.create_task_group() as tasks:
            tasks.start_soon(intake.run, inbox)
            await anyio.wait_all_tasks_blocked()
            requests.start_soon(request, "in the inbox")
            requests.start_soon(request, "behind it")
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert sorted(refused) == ["behind it", "in the inbox"]
    with pytest.raises(BusyError):
        await intake.take([message("later")])
    await intake.take([])
