"""`skerry backup restore` where the database is sound, and how it is undone."""

import sqlite3
from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest

from skerry.features.backup import cli_run as backup
from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.store import DATABASE, Unit, backups, open_store, sessions
from skerry.store.backups import BackupError, BackupKind

NOW = 1_700_000_000_000


def say(unit: Unit) -> None:
    session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), NOW)
    sessions.append(unit, session_id, tail, "r", [message.user("hi", NOW)], NOW)


def entry_count(home: Path) -> int:
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM entry").fetchone()
    return int(count)


def restored(name: str | None, *, yes: bool = False) -> int:
    params = {"action": "restore", "name": name, "yes": yes, "no_salvage": False, "json": False}
    return backup.run(Namespace(**params))


async def test_newer_messages_give_way_only_when_a_person_says_so_and_come_back_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(say)
    made = backups.create(tmp_path, BackupKind.MANUAL, NOW)
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(say)
    with pytest.raises(BackupError, match="nothing was changed") as refused:
        restored(None)
    assert f"restore {made.name} --yes" in refused.value.remedy
    assert entry_count(tmp_path) == 2
    assert restored(None, yes=True) == 0
    assert entry_count(tmp_path) == 1
    (aside,) = backups.replaced(tmp_path)
    assert f"skerry backup restore {aside.name}" in capsys.readouterr().err
    backup.run(Namespace(action="list", json=False))
    assert aside.name in capsys.readouterr().out
    assert restored(aside.name) == 0
    assert entry_count(tmp_path) == 2
