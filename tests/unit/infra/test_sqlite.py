"""SQLite: how it is opened, and how a file is brought to the newest schema."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from skerry.infra.sqlite import NewerSchemaError, connect, migrate, quick_check

FIRST = "CREATE TABLE a (x); INSERT INTO a VALUES (1)"
SECOND = "CREATE TABLE b (x); INSERT INTO b SELECT x + 1 FROM a"
BROKEN = "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"


def bring(path: Path, *steps: str) -> None:
    with closing(connect(path)) as connection:
        migrate(connection, path, steps)


def rows(path: Path, sql: str) -> Sequence[object]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


def test_only_the_steps_that_a_file_has_not_seen_run(path: Path) -> None:
    bring(path, FIRST)
    bring(path, FIRST, SECOND)
    bring(path, FIRST, SECOND)
    assert rows(path, "SELECT x FROM a UNION ALL SELECT x FROM b") == [(1,), (2,)]
    assert rows(path, "PRAGMA user_version") == [(2,)]


def test_a_file_with_content_is_backed_up_before_it_changes(path: Path) -> None:
    bring(path, FIRST)
    assert not path.with_name("state.sqlite.v0.bak").exists()
    bring(path, FIRST, SECOND)
    backup = path.with_name("state.sqlite.v1.bak")
    assert rows(backup, "SELECT name FROM sqlite_schema") == [("a",)]
    assert rows(backup, "PRAGMA user_version") == [(1,)]
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_backup_that_was_broken_off_is_rebuilt(path: Path) -> None:
    bring(path, FIRST)
    unfinished = path.with_name("state.sqlite.v1.bak.new")
    unfinished.write_bytes(b"half a page of something " * 100)
    bring(path, FIRST, SECOND)
    assert rows(path.with_name("state.sqlite.v1.bak"), "PRAGMA user_version") == [(1,)]
    assert not unfinished.exists()


def test_a_few_backups_are_kept_the_newest(path: Path) -> None:
    steps = [f"CREATE TABLE t{number} (x)" for number in range(12)]
    mine = path.with_name("state.sqlite.vacation.bak")
    mine.touch()
    for known in range(1, 13):
        bring(path, *steps[:known])
    kept = {found.name for found in path.parent.glob("*.bak")} - {mine.name}
    assert kept == {f"state.sqlite.v{version}.bak" for version in (9, 10, 11)}
    assert mine.exists()


def test_a_step_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    bring(path, FIRST)
    with pytest.raises(sqlite3.OperationalError):
        bring(path, FIRST, BROKEN)
    assert rows(path, "SELECT name FROM sqlite_schema") == [("a",)]
    assert rows(path, "PRAGMA user_version") == [(1,)]
    bring(path, FIRST, SECOND)
    assert rows(path, "SELECT x FROM b") == [(2,)]


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    bring(path, FIRST, SECOND)
    before = path.read_bytes()
    with pytest.raises(NewerSchemaError, match="schema 2 is newer than 1"):
        bring(path, FIRST)
    assert path.read_bytes() == before


def test_what_was_committed_survives_a_loss_of_power(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_reader_changes_nothing_and_makes_no_file(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(path, read_only=True)
    bring(path, FIRST)
    with (
        closing(connect(path, read_only=True)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("INSERT INTO a VALUES (2)")


def test_a_name_that_looks_like_an_address_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#x.sqlite"
    bring(path, FIRST)
    assert path.exists()


def test_damage_is_found(path: Path) -> None:
    bring(path, FIRST)
    assert quick_check(path) == "ok"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    assert quick_check(path) != "ok"
