"""Backups with erased text are listed with their end of life; orphaned mirrors are cleaned."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.redaction import Redaction
from skerry.store import DATABASE, Unit, backups, open_store, sessions
from skerry.store.backups import BackupKind
from skerry.store.holding_backups import holding
from skerry.store.orphan_mirrors import clean
from skerry.store.state_schema import STEPS

DAY = 86_400_000
REDACTION = Redaction(["zebra 4711"])


async def say(state: Path, text: str) -> None:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("one"), 1)
        sessions.append(unit, session_id, tail, "r", [message.user(text, 1)], 1)

    async with open_store(state / DATABASE) as store:
        await store.write(work)


async def test_each_backup_is_named_with_the_time_until_which_it_is_kept(tmp_path: Path) -> None:
    await say(tmp_path, "Tea.")
    backups.create(tmp_path, BackupKind.DAILY, 1 * DAY)
    await say(tmp_path, "It is zebra 4711.")
    daily = [backups.create(tmp_path, BackupKind.DAILY, day * DAY) for day in (2, 3)]
    manual = backups.create(tmp_path, BackupKind.MANUAL, 4 * DAY)
    holders = holding(tmp_path, REDACTION)
    assert [(holder.name, holder.until) for holder in holders] == [
        (manual.name, None),
        (daily[1].name, 10 * DAY),
        (daily[0].name, 9 * DAY),
    ]
    assert f"rm {manual.path}" in holders[0].remedy


@pytest.mark.parametrize("version", [1, 3, 5])
def test_a_backup_of_an_older_version_is_looked_into(tmp_path: Path, version: int) -> None:
    path = tmp_path / f"{DATABASE}.v{version}.bak"
    with closing(sqlite3.connect(path)) as connection:
        for step in STEPS[:version]:
            connection.executescript(step)
        connection.execute(
            "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
            " created_at, updated_at) VALUES ('r', 0, 0, 'c', 'a', '{}', 'Zebra 4711', 1, 1)"
        )
        connection.commit()
    (holder,) = holding(tmp_path, REDACTION)
    assert (holder.name, holder.until) == (path.name, None)
    assert "three newer" in holder.remedy
    assert holding(tmp_path, Redaction(["nothing like it"])) == []


def test_a_backup_that_cannot_be_read_is_named_too(tmp_path: Path) -> None:
    (tmp_path / f"{DATABASE}.v2.bak").write_bytes(b"no database" * 100)
    (holder,) = holding(tmp_path, REDACTION)
    assert "cannot be read" in holder.remedy


def test_mirrors_that_nobody_looks_after_are_cleaned(tmp_path: Path) -> None:
    line = '{"type":"message","id":"1","message":{"content":"A zebra 4711! Tea."}}\n'
    for name in ("old.jsonl", "old.jsonl.deleted.2026", "kept.jsonl"):
        (tmp_path / name).write_text(f'{{"type":"session","id":"zebra"}}\n{line}no json\n')
    assert clean(tmp_path, {"kept"}, REDACTION) == 2
    cleaned = (tmp_path / "old.jsonl").read_text()
    assert cleaned.splitlines()[1].endswith('"content":"[forgotten] Tea."}}')
    assert cleaned.endswith("\nno json\n")
    assert "zebra 4711" in (tmp_path / "kept.jsonl").read_text()
