"""Backups, restores, and rows that are salvaged from a damaged database."""

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


def appended(name: str, count: int, size: int = 300) -> Callable[[Unit], object]:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key(name), SessionId(f"id-{name}"), 1)
        texts = [f"{name} {number} " + "x" * size for number in range(count)]
        sessions.append(unit, session_id, tail, "r", [message.user(text, 1) for text in texts], 1)

    return work


async def fill(home: Path, *work: Callable[[Unit], object]) -> None:
    async with open_store(home / DATABASE) as store:
        for unit_work in work:
            await store.write(unit_work)


async def numbers(home: Path, name: str) -> list[int]:
    async with open_store(home / DATABASE) as store:
        entries = await store.read(lambda reader: sessions.entries(reader, f"id-{name}", limit=-1))
        return [entry.seq for entry in entries]


def backed_up(home: Path, now: int = NOW) -> backups.Backup:
    return backups.create(home, BackupKind.MANUAL, now)


async def test_a_backup_is_made_while_others_write_and_holds_what_was_there(
    tmp_path: Path,
) -> None:
    steps: list[tuple[int, int]] = []
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(appended("chat", 40))

        def copy() -> backups.Backup:
            return backups.create(
                tmp_path,
                BackupKind.MANUAL,
                NOW,
                lambda completed, total: steps.append((completed, total)),
            )

        backup = await anyio.to_thread.run_sync(copy)
        await store.write(appended("chat", 1))
    assert backups.contents(backup.path) == backups.Contents(1, 40, 1)
    assert backup.path.stat().st_mode & 0o777 == 0o600
    assert steps[-1][0] == steps[-1][1]
    assert {path.name for path in backup.path.parent.iterdir()} == {backup.name}


async def test_the_newest_is_first_and_seven_daily_ones_are_kept(tmp_path: Path) -> None:
    await fill(tmp_path, appended("chat", 1))
    manual = backed_up(tmp_path, NOW - 20 * DAY)
    for day in range(9):
        backups.create(tmp_path, BackupKind.DAILY, NOW + day * DAY)
    (tmp_path / "backups" / "state-mine.sqlite").touch()
    deleted = backups.rotate(tmp_path)
    assert [backup.made_at for backup in deleted] == [NOW + DAY, NOW]
    listed = backups.every(tmp_path)
    assert (len(listed), listed[0].made_at, listed[-1]) == (8, NOW + 8 * DAY, manual)
    assert backups.find(tmp_path, "latest") == listed[0]
    assert backups.find(tmp_path, manual.name) == manual
    with pytest.raises(BackupError, match="No backup is named 'x'"):
        backups.find(tmp_path, "x")


async def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    await fill(tmp_path, appended("chat", 200))
    break_pages(tmp_path / DATABASE, "entry")
    with pytest.raises(BackupError, match="damaged"):
        backed_up(tmp_path)
    assert list((tmp_path / "backups").iterdir()) == []


async def test_what_a_broken_page_held_is_missing_and_named_and_all_else_is_there(
    tmp_path: Path,
) -> None:
    await fill(tmp_path, *(appended(name, 60) for name in ("a", "b", "c")))
    (tmp_path / "agents/main/sessions").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (tmp_path / f"agents/main/sessions/id-{name}.jsonl").write_text("{}")
    break_pages(tmp_path / DATABASE, "entry")
    restored = restore(tmp_path, None, NOW)
    assert restored.damage
    gaps = {gap.session_id.removeprefix("id-"): gap.missing for gap in restored.gaps}
    assert gaps
    assert sum(gaps.values()) < 40
    for name in ("a", "b", "c"):
        assert len(await numbers(tmp_path, name)) == 60 - gaps.get(name, 0)
    assert restored.aside is not None
    aside = {path.name for path in restored.aside.iterdir()}
    assert aside == {DATABASE, *(f"id-{name}.jsonl" for name in gaps)}
    # the conversation continues after its last message
    await fill(tmp_path, appended(next(iter(gaps)), 1))
    assert sqlite.problems(tmp_path / DATABASE, whole=True) == []


async def test_a_backup_fills_what_cannot_be_read_and_newer_messages_stay(tmp_path: Path) -> None:
    await fill(tmp_path, appended("a", 60), appended("b", 60))
    backup = backed_up(tmp_path)
    await fill(tmp_path, appended("c", 60), appended("a", 2))
    break_pages(tmp_path / DATABASE, "session_of_key")
    break_pages(tmp_path / DATABASE, "run")
    restored = restore(tmp_path, backup, NOW)
    assert (restored.gaps, restored.backup) == ((), backup)
    counts = [len(await numbers(tmp_path, name)) for name in ("a", "b", "c")]
    assert counts == [62, 60, 60]
    assert [table.name for table in restored.tables if not table.is_complete] == ["run"]


async def test_a_sound_database_goes_back_to_the_backup(tmp_path: Path) -> None:
    def accept(unit: Unit) -> None:
        runs.add(unit, request("hi"), SessionId("id-a"), 1, 1)
        outbox.add(unit, RunId("r"), 0, TO, ["text"], 1)

    await fill(tmp_path, appended("a", 3), accept)
    backup = backed_up(tmp_path)
    await fill(tmp_path, appended("a", 2))
    restored = restore(tmp_path, backup, NOW)
    assert (restored.damage, restored.tables) == ((), ())
    assert await numbers(tmp_path, "a") == [1, 2, 3]

    async def remaining(store: Store) -> tuple[bool, str]:
        (run,) = await store.read(runs.unfinished)
        (part,) = await store.read(outbox.undelivered)
        return run.restarts >= MAX_RESTARTS, part.waiting.state

    # Work that was open then may be done: it is not run again, and the adapter asks the platform.
    async with open_store(tmp_path / DATABASE) as store:
        assert await remaining(store) == (True, "sending")


def _no_database(home: Path) -> None:
    (home / DATABASE).write_bytes(b"no database " * 1000)


async def test_a_file_that_is_no_database_gives_way_to_the_backup(tmp_path: Path) -> None:
    await fill(tmp_path, appended("a", 3))
    backup = backed_up(tmp_path)
    _no_database(tmp_path)
    restored: Restored = restore(tmp_path, backup, NOW)
    assert restored.damage
    assert await numbers(tmp_path, "a") == [1, 2, 3]


async def test_a_backup_that_is_damaged_changes_nothing(tmp_path: Path) -> None:
    await fill(tmp_path, appended("a", 200))
    backup = backed_up(tmp_path)
    break_pages(backup.path, "entry")
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(BackupError, match="damaged"):
        restore(tmp_path, backup, NOW)
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
    await fill(tmp_path, appended("a", 1))
    assert await numbers(tmp_path, "a") == [1]


async def test_a_restore_is_undone_by_the_name_of_what_it_put_aside(tmp_path: Path) -> None:
    await fill(tmp_path, appended("chat", 2))
    old = backed_up(tmp_path)
    assert not loses(tmp_path, old)
    await fill(tmp_path, appended("chat", 3))
    assert loses(tmp_path, old)
    aside = restore(tmp_path, old, NOW + 1000).aside
    assert aside is not None
    (listed,) = backups.replaced(tmp_path)
    assert (listed.name, listed.made_at) == (aside.name, NOW + 1000)
    assert backups.find(tmp_path, "latest") == old
    restore(tmp_path, backups.find(tmp_path, aside.name), NOW + 2000)
    assert await numbers(tmp_path, "chat") == [1, 2, 3, 4, 5]
    assert len(backups.replaced(tmp_path)) == 2
