"""Sent blocks in the row of a run, also in a database of the previous version."""

from contextlib import closing
from pathlib import Path

from skerry.infra import sqlite
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.store import DATABASE, Unit, open_store, outbox, runs
from skerry.store.state_schema import STEPS
from tests.support.core import request

RUN = RunId("r1")
TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "alice"), "m1")


async def test_a_block_leaves_a_trace_and_says_how_far_its_text_has_left(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:

        async def open_run() -> runs.OpenRun:
            (run,) = await store.read(runs.unfinished)
            return run

        def accept(unit: Unit) -> None:
            runs.add(unit, request("hi", RUN), SessionId("s1"), 1, 1)
            runs.checkpoint(unit, RUN, "partial")

        def leave(unit: Unit) -> None:
            outbox.add(unit, RUN, 4, TO, ["one"], 1)
            runs.note_block(unit, RUN, ("one and", 3))

        await store.write(accept)
        assert (await open_run()).delivered is None
        assert await store.read(lambda reader: outbox.next_block(reader, RUN)) == 0
        await store.write(lambda unit: runs.note_block(unit, RUN, None))
        run = await open_run()
        assert (run.left_trace, run.partial, run.delivered) == (True, "partial", None)
        await store.write(leave)
        run = await open_run()
        assert (run.partial, run.delivered) == ("one and", 3)
        assert await store.read(lambda reader: outbox.next_block(reader, RUN)) == 5
        await store.write(lambda unit: runs.note_effect(unit, RUN))
        run = await open_run()
        assert (run.partial, run.delivered) == ("", 0)


async def test_open_runs_of_the_version_before_have_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    before = next(number for number, step in enumerate(STEPS) if "delivered INTEGER" in step)
    async with open_store(tmp_path / "new.sqlite") as store:
        await store.write(lambda unit: runs.add(unit, request("hi", RUN), SessionId("s1"), 1, 1))
        row = await store.read(lambda reader: reader.one("SELECT request FROM run", ()))
    assert row is not None
    with closing(sqlite.connect(path)) as connection:
        sqlite.migrate(connection, path, STEPS[:before])
        connection.execute(
            "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, partial)"
            " VALUES ('r1', 'agent:main:main', 's1', ?, 1, 'half')",
            (row[0],),
        )
    async with open_store(path) as store:
        (run,) = await store.read(runs.unfinished)
        assert (run.partial, run.delivered) == ("half", None)
        await store.write(lambda unit: runs.note_effect(unit, RUN))
        (run,) = await store.read(runs.unfinished)
        assert run.delivered is None
