"""The regular maintenance of the state by a gateway, and the condition of the database."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio.lowlevel
import pytest

from skerry.app import maintenance
from skerry.app.maintenance import BACKUP, CHECK, Upkeep, looked_after, unless_damaged
from skerry.infra import heap, sqlite
from skerry.model import message
from skerry.model.errors import StoreFailedError
from skerry.model.ids import AgentId, SessionId
from skerry.model.redaction import Redaction
from skerry.store import DATABASE, Unit, backups, open_store, sessions, tasks
from skerry.store.condition import Condition, Storage, StoreDamagedError, kind
from skerry.store.forgetting import begin, finish, holds
from skerry.store.holding_backups import holding
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import MAIN, open_core, request
from tests.support.damage import break_pages

DAY = 86_400_000


def talk(unit: Unit) -> None:
    session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
    messages = [message.user(f"{number} " + "x" * 300, 1) for number in range(200)]
    sessions.append(unit, session_id, tail, "r", messages, 1)


def state(condition: Condition) -> Storage:
    return condition.storage


async def made_each_day(home: Path, clock: FakeClock, *steps: int) -> list[int]:
    """Returns the number of backups after each step of the clock."""
    found = []
    async with open_store(home / DATABASE) as store:
        for step in steps:
            clock.advance(step)
            await Upkeep(store, home, clock).do_due()
            found.append(len(backups.every(home)))
    return found


async def test_the_database_is_copied_each_day_and_seven_copies_are_kept(tmp_path: Path) -> None:
    steps = [0, DAY // 2, DAY // 2, *[DAY] * 8]
    assert await made_each_day(tmp_path, FakeClock(), *steps) == [1, 1, 2, 3, 4, 5, 6, *[7] * 4]


async def test_no_backup_is_made_during_a_forget_unless_that_takes_days(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_store(tmp_path / DATABASE) as store:
        care = Upkeep(store, tmp_path, clock)
        await care.do_due()
        clock.advance(3 * DAY)  # for which no gateway ran
        now = clock.now_ms()
        job = await store.write(lambda unit: begin(unit, AgentId("main"), ["zebra"], now))
        await care.do_due()
        assert len(backups.every(tmp_path)) == 1
        clock.advance(DAY)
        await care.do_due()
        newest, first = backups.every(tmp_path)
        assert holds(newest.path, Redaction(["zebra"])), "and it is named as one that has it"
        assert not holds(first.path, Redaction(["zebra"]))
        clock.advance(DAY)
        await finish(store, job)
        await care.do_due()
        assert len(backups.every(tmp_path)) == 3
        assert not holds(backups.every(tmp_path)[0].path, Redaction(["zebra"]))


async def test_the_first_backup_of_all_waits_for_a_forget_too(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_store(tmp_path / DATABASE) as store:
        care, now = Upkeep(store, tmp_path, clock), clock.now_ms()
        job = await store.write(lambda unit: begin(unit, AgentId("main"), ["zebra"], now))
        await care.do_due()
        assert backups.every(tmp_path) == []
        await finish(store, job)
        await care.do_due()
        (backup,) = backups.every(tmp_path)
        assert not holds(backup.path, Redaction(["zebra"]))


async def test_a_backup_that_cannot_be_checked_is_no_backup_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, *, whole: bool) -> list[str]:
        raise sqlite3.OperationalError(f"disk I/O error: {path} {whole}")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "problems", broken)
        assert await made_each_day(tmp_path, FakeClock(), 0) == [0]
    assert await made_each_day(tmp_path, FakeClock(), 0) == [1]


async def test_the_copy_of_a_process_that_was_killed_is_named_and_deleted(tmp_path: Path) -> None:
    clock = FakeClock()
    now = clock.now_ms() // 1000
    (tmp_path / backups.FOLDER).mkdir()
    killed, grows = (
        tmp_path / backups.FOLDER / f"state-2026112{n}T040000.daily.sqlite.new" for n in (1, 2)
    )
    for path, at in ((killed, now - 3600), (grows, now)):
        path.write_bytes(b"zebra")
        os.utime(path, (at, at))
    assert [holding_backup.name for holding_backup in holding(tmp_path, Redaction(["zebra"]))] == [
        killed.name,
        grows.name,
    ]
    assert await made_each_day(tmp_path, clock, 0) == [1]
    assert (killed.exists(), grows.exists()) == (False, True)


async def test_a_clock_that_is_set_stops_neither_backups_nor_checks(tmp_path: Path) -> None:
    years = 30 * 365 * DAY
    assert await made_each_day(tmp_path, FakeClock(), 0, years, -years, DAY) == [1, 2, 3, 4]
    async with open_store(tmp_path / DATABASE) as store:
        noted = await store.read(tasks.outcomes)
    assert noted.keys() == {BACKUP, CHECK}
    assert noted[CHECK][1] == "ok"


async def test_a_damaged_database_pushes_out_no_backup(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(talk)
    break_pages(tmp_path / DATABASE, "entry")
    assert await made_each_day(tmp_path, FakeClock(), 0) == [0]


async def test_damage_is_found_after_a_crash_and_new_work_refused(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(talk)
    break_pages(tmp_path / DATABASE, "entry")
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        async with looked_after(core.store, orderly=True):
            assert state(core.store.condition) is Storage.OK
        async with looked_after(core.store, orderly=False):
            assert state(core.store.condition) is Storage.CORRUPT
            assert not await core.store.works()
            with pytest.raises(StoreDamagedError, match="no new messages are accepted"):
                await core.dispatch.submit(request("hi"))
            assert core.dispatch.active() == []

        async def fail() -> str:
            raise StoreFailedError("x")

        assert await unless_damaged(core.store, fail()) is None
        core.store.condition.damage = ""
        with pytest.raises(StoreFailedError):
            await unless_damaged(core.store, fail())


async def test_what_rotted_while_nothing_ran_is_found_soon_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(talk)
        await store.write(lambda unit: tasks.note(unit, CHECK, FakeClock().now_ms(), "ok"))
    break_pages(tmp_path / DATABASE, "entry")
    monkeypatch.setattr(maintenance, "FIRST_SECONDS", 0.0)
    async with open_store(tmp_path / DATABASE) as store, anyio.create_task_group() as group:
        group.start_soon(Upkeep(store, tmp_path, FakeClock()).run)
        with anyio.fail_after(60):
            while state(store.condition) is not Storage.CORRUPT:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def test_free_memory_is_given_back_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(maintenance, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(maintenance, "GIVE_SECONDS", 0.01)
    monkeypatch.setattr(heap, "give_back", lambda: given.append("pages"))
    async with open_store(tmp_path / DATABASE) as store, anyio.create_task_group() as group:
        group.start_soon(Upkeep(store, tmp_path, FakeClock()).run)
        with anyio.fail_after(60):
            while len(given) < 3:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def test_a_reader_that_meets_a_broken_page_says_so(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(talk)
    break_pages(tmp_path / DATABASE, "entry")
    async with open_store(tmp_path / DATABASE) as store:
        with pytest.raises(StoreFailedError):
            await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
        assert state(store.condition) is Storage.CORRUPT


async def test_a_database_that_another_program_holds_is_busy_until_it_lets_go(
    tmp_path: Path,
) -> None:
    path = tmp_path / DATABASE
    async with open_store(path) as store:
        await store.write(lambda unit: unit.one("PRAGMA busy_timeout = 1"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreFailedError):
                await store.write(talk)
            assert state(store.condition) is Storage.BUSY
            assert not await store.works()
            other.execute("ROLLBACK")
        assert await store.works()


async def test_a_database_that_may_not_be_written_is_read_only_until_it_may(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: unit.one("PRAGMA query_only = ON"))
        with pytest.raises(StoreFailedError):
            await store.write(talk)
        assert state(store.condition) is Storage.READ_ONLY
        store._writer._connection.execute("PRAGMA query_only = OFF")  # as when it is remounted
        assert await store.works()


def test_what_an_error_means_follows_from_its_code() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as full:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert kind(full.value) is Storage.FULL
    assert kind(sqlite3.OperationalError("of the module itself")) is Storage.FAILING


def test_the_worst_is_told_and_damage_stays() -> None:
    condition = Condition(checking=True)
    assert state(condition) is Storage.CHECKING
    condition.writing = Storage.FULL
    assert state(condition) is Storage.FULL
    condition.damage = "page 7"
    condition.note_success()
    assert state(condition) is Storage.CORRUPT
