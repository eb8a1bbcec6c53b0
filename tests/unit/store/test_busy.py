"""Another program locks the database: waiting writes fail together, and later ones work."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.errors import StoreFailedError
from skerry.model.ids import SessionId
from skerry.store import Unit, open_store, sessions
from skerry.store.condition import Storage
from tests.support.core import MAIN

UNITS = 300


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets another program write for the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def say(unit: Unit) -> int:
    session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
    return sessions.append(unit, session_id, tail, "r1", [message.user("hello", 1)], 1)


async def test_units_that_wait_for_another_program_fail_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, they would wait for a minute, and all later ones after them."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 500)
    path, refused = tmp_path / "state.sqlite", 0

    async with open_store(path) as store:

        async def fail() -> None:
            nonlocal refused
            with pytest.raises(StoreFailedError, match="locked"):
                await store.write(say)
            refused += 1

        with locked(path), anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(UNITS):
                    tasks.start_soon(fail)
            assert store.condition.storage is Storage.BUSY
            assert not await store.works()
        assert refused == UNITS
        assert await store.works()
        await store.write(say)
        entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
        assert len(entries) == 1


async def test_checkpoints_that_fail_together_are_one_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 100)
    path = tmp_path / "state.sqlite"
    async with open_store(path) as store:
        await store.write(say)
        with locked(path):
            for _ in range(3):
                store.post(say)
                with anyio.fail_after(60), pytest.raises(StoreFailedError):
                    await store.write(say)
        store.post(failing)
        await store.write(say)
    records = [record for record in caplog.records if record.name == "skerry.store.writer"]
    assert [(record.levelname, bool(record.exc_info)) for record in records] == [
        ("WARNING", False),
        ("ERROR", True),
    ]
    assert "locked" in records[0].getMessage()


def failing(unit: Unit) -> None:
    raise ValueError(unit)
