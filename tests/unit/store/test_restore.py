"""Backups, and what comes back of a damaged database."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.runtime.recovery import MAX_RESTARTS
from skerry.store import DATABASE, Store, Unit, backups, open_store, outbox, runs, sessions
from skerry.store.backups import BackupError, BackupKind
from skerry.store.restore import Restored, loses, restore
from skerry.store.state_schema import STEPS
from tests.support.core import request
from tests.support.damage import break_pages

NOW = 1_700_000_000_000
DAY = 86_400_000
TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "alice"), "m1")


def key(name: str) -> SessionKey:
    return SessionKey.parse(f"agent:main:{name}")


def said(name: str, count: int, size: int = 300) -> Callable[[Unit], object]:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key(name), SessionId(f"id-{name}"), 1)
        texts = [f"{name} {number} " + "x" * size for number in range(count)]
        sessions.append(unit, session_id, tail, "r", [message.user(one, 1) for one in texts], 1)

    return work


async def fill(home: Path, *work: Callable[[Unit], object]) -> None:
    async with open_store(home / DATABASE) as store:
        for one in work:
            await store.write(one)


async def found(home: Path, name: str) -> list[int]:
    async with open_store(home / DATABASE) as store:
        there = await store.read(lambda reader: sessions.entries(reader, f"id-{name}", limit=-1))
        return [entry.seq for entry in there]


def backed_up(home: Path, now: int = NOW) -> backups.Backup:
    return backups.create(home, BackupKind.MANUAL, now)


async def test_a_backup_is_made_while_others_write_and_holds_what_was_there(
    tmp_path: Path,
) -> None:
    seen: list[tuple[int, int]] = []
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(said("chat", 40))

        def copy() -> backups.Backup:
            return backups.create(
                tmp_path, BackupKind.MANUAL, NOW, lambda done, total: seen.append((done, total))
            )

        made = await anyio.to_thread.run_sync(copy)
        await store.write(said("chat", 1))
    assert backups.contents(made.path) == backups.Contents(1, 40, 1)
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert seen[-1][0] == seen[-1][1]
    assert {one.name for one in made.path.parent.iterdir()} == {made.name}


async def test_the_newest_is_first_and_seven_daily_ones_are_kept(tmp_path: Path) -> None:
    await fill(tmp_path, said("chat", 1))
    manual = backed_up(tmp_path, NOW - 20 * DAY)
    for day in range(9):
        backups.create(tmp_path, BackupKind.DAILY, NOW + day * DAY)
    (tmp_path / "backups" / "state-mine.sqlite").touch()
    gone = backups.rotate(tmp_path)
    assert [one.made_at for one in gone] == [NOW + DAY, NOW]
    there = backups.every(tmp_path)
    assert (len(there), there[0].made_at, there[-1]) == (8, NOW + 8 * DAY, manual)
    assert backups.find(tmp_path, "latest") == there[0]
    assert backups.find(tmp_path, manual.name) == manual
    with pytest.raises(BackupError, match="No backup is named 'x'"):
        backups.find(tmp_path, "x")


async def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    await fill(tmp_path, said("chat", 200))
    break_pages(tmp_path / DATABASE, "entry")
    with pytest.raises(BackupError, match="damaged"):
        backed_up(tmp_path)
    assert list((tmp_path / "backups").iterdir()) == []


async def test_what_a_broken_page_held_is_missing_and_named_and_all_else_is_there(
    tmp_path: Path,
) -> None:
    await fill(tmp_path, *(said(name, 60) for name in ("a", "b", "c")))
    (tmp_path / "agents/main/sessions").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (tmp_path / f"agents/main/sessions/id-{name}.jsonl").write_text("{}")
    break_pages(tmp_path / DATABASE, "entry")
    done = restore(tmp_path, None, NOW)
    assert done.damage
    lost = {gap.session_id.removeprefix("id-"): gap.missing for gap in done.gaps}
    assert lost
    assert sum(lost.values()) < 40
    for name in ("a", "b", "c"):
        assert len(await found(tmp_path, name)) == 60 - lost.get(name, 0)
    assert done.aside is not None
    aside = {one.name for one in done.aside.iterdir()}
    assert aside == {DATABASE, *(f"id-{name}.jsonl" for name in lost)}
    # and the conversation goes on behind its last message
    await fill(tmp_path, said(next(iter(lost)), 1))
    assert sqlite.problems(tmp_path / DATABASE, whole=True) == []


async def test_a_backup_fills_what_cannot_be_read_and_newer_messages_stay(tmp_path: Path) -> None:
    await fill(tmp_path, said("a", 60), said("b", 60))
    made = backed_up(tmp_path)
    await fill(tmp_path, said("c", 60), said("a", 2))
    break_pages(tmp_path / DATABASE, "session_of_key")
    break_pages(tmp_path / DATABASE, "run")
    done = restore(tmp_path, made, NOW)
    assert (done.gaps, done.backup) == ((), made)
    counts = [len(await found(tmp_path, name)) for name in ("a", "b", "c")]
    assert counts == [62, 60, 60]
    assert [one.name for one in done.tables if not one.is_complete] == ["run"]


async def test_a_sound_database_goes_back_to_the_backup(tmp_path: Path) -> None:
    def accept(unit: Unit) -> None:
        runs.add(unit, request("hi"), SessionId("id-a"), 1, 1)
        outbox.add(unit, RunId("r"), 0, TO, ["text"], 1)

    await fill(tmp_path, said("a", 3), accept)
    made = backed_up(tmp_path)
    await fill(tmp_path, said("a", 2))
    done = restore(tmp_path, made, NOW)
    assert (done.damage, done.tables) == ((), ())
    assert await found(tmp_path, "a") == [1, 2, 3]

    async def left(store: Store) -> tuple[bool, str]:
        (run,) = await store.read(runs.unfinished)
        (part,) = await store.read(outbox.undelivered)
        return run.restarts >= MAX_RESTARTS, part.waiting.state

    # What was to do then may be done: it is not run again, and the platform is asked.
    async with open_store(tmp_path / DATABASE) as store:
        assert await left(store) == (True, "sending")


def _no_database(home: Path) -> None:
    (home / DATABASE).write_bytes(b"no database " * 1000)


async def test_a_file_that_is_no_database_gives_way_to_the_backup(tmp_path: Path) -> None:
    await fill(tmp_path, said("a", 3))
    made = backed_up(tmp_path)
    _no_database(tmp_path)
    done: Restored = restore(tmp_path, made, NOW)
    assert done.damage
    assert await found(tmp_path, "a") == [1, 2, 3]


async def test_a_backup_that_is_damaged_changes_nothing(tmp_path: Path) -> None:
    await fill(tmp_path, said("a", 200))
    made = backed_up(tmp_path)
    break_pages(made.path, "entry")
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(BackupError, match="damaged"):
        restore(tmp_path, made, NOW)
    assert (tmp_path / DATABASE).read_bytes() == before
    assert not (tmp_path / f"{DATABASE}.restored").exists()
    with pytest.raises(BackupError, match="no backup"):
        restore(tmp_path, None, NOW)


async def test_a_backup_of_the_version_before_is_brought_to_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    old = folder / "state-20260101T000000.manual.sqlite"
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        sqlite.migrate(connection, old, STEPS[:3])
    restore(tmp_path, backups.find(tmp_path, old.name), NOW)
    await fill(tmp_path, said("a", 1))
    assert await found(tmp_path, "a") == [1]


async def test_a_restore_is_undone_by_the_name_of_what_it_put_aside(tmp_path: Path) -> None:
    await fill(tmp_path, said("chat", 2))
    old = backed_up(tmp_path)
    assert not loses(tmp_path, old)
    await fill(tmp_path, said("chat", 3))
    assert loses(tmp_path, old)
    aside = restore(tmp_path, old, NOW + 1000).aside
    assert aside is not None
    (listed,) = backups.replaced(tmp_path)
    assert (listed.name, listed.made_at) == (aside.name, NOW + 1000)
    assert backups.find(tmp_path, "latest") == old
    restore(tmp_path, backups.find(tmp_path, aside.name), NOW + 2000)
    assert await found(tmp_path, "chat") == [1, 2, 3, 4, 5]
    assert len(backups.replaced(tmp_path)) == 2
