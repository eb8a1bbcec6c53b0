"""Runs that the gateway starts: each is settled once, also after a crash at any point."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from skerry.app.build import Application
from skerry.model.errors import StoreFailedError
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import UserMessage
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest, StopReason
from skerry.runtime import internal_runs
from skerry.runtime.internal_runs import EndedInternalRun, InternalRuns, RunSettlement, deliver
from skerry.store import Unit, last_routes, sessions
from skerry.testing.channel import ACCOUNT, CHANNEL, FakePlatform
from tests.support.chaos import until
from tests.support.moments import Life, Moments, echoing, life

OWNER = "pond"
KEY = SessionKey.parse("cron:frog")
TO = ReplyTo(ChannelId(CHANNEL), AccountId(ACCOUNT), Peer(PeerKind.DIRECT, "ann"), "")
POINTS = ("internal.started:1", "internal.ended:1", "internal.settled:1")


def request(run_id: str, text: str = "count the frogs", *, fresh: bool = True) -> RunRequest:
    return RunRequest(
        RunId(run_id), KEY, text, origin=Origin.OWNER, purpose=Purpose.CRON, fresh=fresh
    )


def internal(gateway: Application) -> InternalRuns:
    runs = gateway.context.internal_runs
    assert runs is not None
    return runs


@asynccontextmanager
async def collecting(gateway: Application) -> AsyncGenerator[list[EndedInternalRun]]:
    """Delivers the end of each run of the owner for the block; gives the ends."""
    ends: list[EndedInternalRun] = []
    runs = internal(gateway)

    async def settle(ended: EndedInternalRun) -> RunSettlement:
        ends.append(ended)
        text = f"{ended.subject.decode()}: {ended.result.payloads[0] if ended.result else 'lost'}"

        def write(unit: Unit) -> None:
            deliver(unit, ended.run_id, TO, [text], runs.now_ms())

        return RunSettlement(write, lambda: runs.delivery.wake(TO))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runs.collect, OWNER, settle)
        yield ends
        tasks.cancel_scope.cancel()


async def received(running: Life | Path, number: int = 1) -> list[str]:
    """Waits for so many messages on the platform; returns their texts."""
    platform = running.platform if isinstance(running, Life) else FakePlatform(running / "platform")

    def texts() -> list[str]:
        return [part.text for part in platform.received()]

    await until(lambda: len(texts()) >= number, texts)
    return texts()


async def test_the_end_of_a_run_is_given_once_to_the_part_that_started_it(tmp_path: Path) -> None:
    async with life(tmp_path, models=echoing()) as running, collecting(running.gateway) as ends:
        for _ in range(2):  # the second is known already
            await internal(running.gateway).start(request("pond-1"), OWNER, b"morning")
        assert await received(running) == ["morning: echo: count the frogs"]
        assert [end.run_id for end in ends] == ["pond-1"]
        assert ends[0].result is not None
        assert ends[0].result.stop_reason is StopReason.DONE


async def test_an_end_that_the_store_refuses_to_take_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_runs, "RETRY_SECONDS", 0.0)
    refusals = [StoreFailedError("The disk is full.")]

    def refuse(point: str) -> None:
        if point == "internal.ended" and refusals:
            raise refusals.pop()

    async with (
        life(tmp_path, refuse, echoing()) as running,
        collecting(running.gateway) as ends,
    ):
        await internal(running.gateway).start(request("pond-1"), OWNER, b"full")
        assert await received(running) == ["full: echo: count the frogs"]
        assert (len(ends), refusals) == (1, [])


async def test_another_owner_is_given_nothing(tmp_path: Path) -> None:
    async with life(tmp_path, models=echoing()) as running, collecting(running.gateway) as ends:
        runs = internal(running.gateway)
        await runs.start(request("sea-1"), "sea")
        assert await runs.finish(RunId("sea-1"), 60) is not None
        await runs.start(request("pond-1"), OWNER, b"mine")
        await received(running)
        assert [end.subject for end in ends] == [b"mine"]


@pytest.mark.parametrize("moment", POINTS)
async def test_a_gateway_killed_at_any_point_gives_the_end_once(
    tmp_path: Path, moment: str
) -> None:
    moments = Moments(tmp_path / "now", tmp_path / "moments", frozenset({moment}))
    async with (
        life(moments.folder, moments.reach, echoing()) as running,
        collecting(running.gateway),
    ):
        moments.turn = running.gateway.context.store._writer.turn
        await internal(running.gateway).start(request("pond-1"), OWNER, b"killed")
        await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
    async with life(moments[moment], models=echoing()) as restarted, collecting(restarted.gateway):
        assert await received(restarted) == ["killed: echo: count the frogs"]
        await internal(restarted.gateway).start(request("pond-2"), OWNER, b"later")
        assert await received(restarted, 2) == [
            "killed: echo: count the frogs",
            "later: echo: count the frogs",
        ]


async def test_a_fresh_run_begins_a_session_of_its_own_without_a_notice(tmp_path: Path) -> None:
    async with life(tmp_path, models=echoing()) as running, collecting(running.gateway) as ends:
        runs, store = internal(running.gateway), running.gateway.context.store
        for number in (1, 2):
            await runs.start(request(f"pond-{number}"), OWNER, b"")
            await received(running, number)
        ids = [end.result.session_id for end in ends if end.result]
        assert len(set(ids)) == 2
        for session_id in ids:
            entries = await store.read(partial(sessions.entries, session_id=session_id, limit=-1))
            assert [type(entry.message) for entry in entries][:1] == [UserMessage]
            assert len(entries) == 2


async def test_the_text_of_an_internal_run_is_no_command(tmp_path: Path) -> None:
    async with life(tmp_path, models=echoing()) as running:
        runs = internal(running.gateway)
        await runs.start(request("pond-1", "/new and count"), OWNER)
        result = await runs.finish(RunId("pond-1"), 60)
        assert result is not None
        assert result.payloads == ("echo: /new and count",)


async def test_the_last_chat_of_the_owner_is_known_after_a_restart(tmp_path: Path) -> None:
    config = {"commands": {"ownerAllowFrom": [f"{CHANNEL}:ann"]}}
    async with life(tmp_path, models=echoing(), config=config) as running:
        for peer in ("ann", "bob"):
            running.platform.say(f"hello of {peer}", peer=peer, message_id=peer)
        await received(running, 2)
    async with life(tmp_path, models=echoing()) as restarted:
        agent = SessionKey.main().agent
        to = await restarted.gateway.context.store.read(
            lambda reader: last_routes.last(reader, agent)
        )
        assert to == TO
