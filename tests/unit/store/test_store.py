"""The store: units, group commit, and its state after failures."""

import sqlite3
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from skerry.infra.sqlite import quick_check
from skerry.model import message
from skerry.model.errors import (
    NewerStateError,
    StaleTailError,
    StoreClosedError,
    StoreFailedError,
)
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Reader, Unit, open_store, sessions
from skerry.store.store import TouchedSessions
from tests.support.twice import every_unit

MAIN = SessionKey.main()


def count(reader: Reader) -> int:
    row = reader.one("SELECT count(*) FROM entry")
    assert row is not None
    return int(row[0])


def user_message(text: str) -> message.UserMessage:
    return message.user(text, 1)


async def test_what_a_unit_wrote_is_there_after_it_returned(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:

        def work(unit: Unit) -> int:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            return sessions.append(unit, session_id, tail, "r1", [user_message("hi")], 2)

        assert await store.write(work) == 1
        outside = sqlite3.connect(tmp_path / "state.sqlite")
        assert outside.execute("SELECT count(*) FROM entry").fetchone() == (1,)
        outside.close()


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_failing_unit_leaves_nothing_and_its_neighbours_alone(
    tmp_path: Path, position: int
) -> None:
    gate, begun = threading.Event(), threading.Event()
    async with open_store(tmp_path / "state.sqlite") as store:

        def entry(session: str) -> object:
            def work(unit: Unit) -> int:
                session_id, tail = sessions.ensure(
                    unit, SessionKey.parse(session), SessionId(session), 1
                )
                return sessions.append(unit, session_id, tail, "r", [user_message(session)], 1)

            return work

        def broken(unit: Unit) -> None:
            entry("broken")(unit)  # type: ignore[operator]
            message_of_failure = "no"
            raise ValueError(message_of_failure)

        def wait(_: Unit) -> None:
            begun.set()
            gate.wait(60)

        store.post(wait)  # so that the others end up in one transaction
        await anyio.to_thread.run_sync(begun.wait, 60)
        works = [entry("first"), entry("last")]
        works.insert(position, broken)
        outcomes: list[object] = []

        async def collect(work: object) -> None:
            try:
                outcomes.append(await store.write(work))  # type: ignore[arg-type]
            except ValueError as error:
                outcomes.append(str(error))

        async with anyio.create_task_group() as tasks:
            for work in works:
                tasks.start_soon(collect, work)
            await anyio.wait_all_tasks_blocked()
            gate.set()
        assert sorted(map(str, outcomes)) == ["1", "1", "no"]
        assert await store.read(count) == 2


async def test_a_transcript_that_moved_on_refuses_the_append(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:

        def append_at_zero(unit: Unit) -> int:
            session_id, _ = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            return sessions.append(unit, session_id, 0, "r1", [user_message("hi")], 2)

        await store.write(append_at_zero)
        with pytest.raises(StaleTailError):
            await store.write(append_at_zero)
        assert await store.read(count) == 1


async def test_a_cancelled_caller_does_not_undo_what_it_handed_in(tmp_path: Path) -> None:
    gate = threading.Event()
    async with open_store(tmp_path / "state.sqlite") as store:

        def slow(unit: Unit) -> None:
            gate.wait(60)
            sessions.ensure(unit, MAIN, SessionId("s1"), 1)

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.write, slow)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        gate.set()
        session = await store.write(lambda unit: sessions.find(unit, str(MAIN)))
        assert session is not None


async def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        for number in range(1000):
            key = SessionKey.parse(f"s{number}")
            store.post(partial(sessions.ensure, key=key, new_id=SessionId(str(key)), now=1))
    with pytest.raises(StoreClosedError):
        store.post(lambda _: None)
    outside = sqlite3.connect(tmp_path / "state.sqlite")
    assert outside.execute("SELECT count(*) FROM session").fetchone() == (1000,)
    outside.close()
    assert quick_check(tmp_path / "state.sqlite") == "ok"


async def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    with pytest.raises(NewerStateError) as caught:
        async with open_store(path):
            pass
    assert "999" in str(caught.value)


async def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite"):
        assert (tmp_path / "state.sqlite").stat().st_mode & 0o777 == 0o600


async def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    file.write_bytes(b"no database " * 100)
    with pytest.raises(StoreFailedError, match="damaged") as caught:
        async with open_store(file):
            pass
    assert "skerry backup restore" in caught.value.remedy


async def test_a_lack_of_memory_fails_what_was_to_be_written_and_nothing_after(
    tmp_path: Path,
) -> None:
    lacking = ["store.before-commit"]

    def reach(point: str) -> None:
        if point in lacking:
            lacking.clear()
            raise MemoryError  # as `sqlite3` does for SQLITE_NOMEM

    async with open_store(tmp_path / "state.sqlite", reach=reach) as store:
        with anyio.fail_after(60):
            with pytest.raises(StoreFailedError, match="out of memory"):
                await store.write(say)
            assert await store.read(count) == 0
            await store.write(say)
        assert await store.read(count) == 1


def say(unit: Unit) -> None:
    session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
    sessions.append(unit, session_id, tail, "r1", [user_message("hi")], 2)


@pytest.mark.parametrize("how", ["read", "scan"])
async def test_a_reading_closure_sees_one_moment(tmp_path: Path, how: str) -> None:
    begun, written = threading.Event(), threading.Event()

    def look(reader: Reader) -> tuple[int, int]:
        before = count(reader)
        begun.set()
        assert written.wait(60)
        return before, count(reader)

    def add(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
        sessions.append(unit, session_id, tail, "r1", [user_message("hi")], 2)

    counts: list[tuple[int, int]] = []
    async with open_store(tmp_path / "state.sqlite") as store:

        async def read() -> None:
            counts.append(await getattr(store, how)(look))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync(begun.wait)
            await store.write(add)
            written.set()
        assert counts == [(0, 0)]
        assert await store.read(count) == 1


async def test_a_unit_runs_twice_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_unit(monkeypatch)
    times: list[int] = []

    def add(unit: Unit) -> int:
        session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
        return sessions.append(unit, session_id, tail, "r1", [user_message("hi")], 2)

    def remember(_: Unit) -> int:
        times.append(1)
        return len(times)

    async with open_store(tmp_path / "state.sqlite") as store:
        assert await store.write(add) == 1
        assert await store.read(count) == 1
        with pytest.raises(AssertionError, match="the second time 2, the first 1"):
            await store.write(remember)


async def test_a_follower_takes_all_sessions_that_were_touched_a_little_after_the_first(
    tmp_path: Path,
) -> None:
    touched = TouchedSessions(0)
    async with open_store(tmp_path / "state.sqlite", on_commit=touched.add) as store:

        def work(unit: Unit, key: SessionKey) -> None:
            session_id, tail = sessions.ensure(unit, key, SessionId(str(key)), 1)
            sessions.append(unit, session_id, tail, "r1", [user_message("hi")], 2)

        other_key = SessionKey.parse("agent:main:other")
        for key in (MAIN, other_key):
            await store.write(partial(work, key=key))
        keys = {str(MAIN), str(other_key)}
        assert touched.waiting == keys
        with anyio.fail_after(60):
            await touched.due()
            assert touched.take() == keys
            assert touched.take() == set()
            touched.add(["c"])
            await touched.due()
        assert touched.take() == {"c"}


async def test_a_follower_that_took_early_is_woken_by_the_next_change_alone() -> None:
    touched = TouchedSessions(0)
    touched.add(["a"])
    assert touched.take() == {"a"}
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    with anyio.move_on_after(0) as scope:
        await touched.due()
    assert scope.cancelled_caught
    touched.add(["b"])
    with anyio.fail_after(60):
        await touched.due()
    assert touched.take() == {"b"}
