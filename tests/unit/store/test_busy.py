"""Another program holds the database: who waits to write hears of it together, and it goes on."""

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
def held(path: Path) -> Iterator[None]:
    """Lets another program write for the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def say(unit: Unit) -> int:
    session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
    return sessions.append(unit, session_id, tail, "r1", [message.user("hello", 1)], 1)


async def test_units_that_wait_for_another_program_fail_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other they would wait for a minute, and every later one behind them."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 500)
    path, refused = tmp_path / "state.sqlite", 0

    async with open_store(path) as store:

        async def fail() -> None:
            nonlocal refused
            with pytest.raises(StoreFailedError, match="locked"):
                await store.write(say)
            refused += 1

        with held(path), anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(UNITS):
                    tasks.start_soon(fail)
            assert store.condition.storage is Storage.BUSY
            assert not await store.works()
        assert refused == UNITS
        assert await store.works()
        await store.write(say)
        found = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
        assert len(found) == 1


async def test_checkpoints_that_fail_together_are_one_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 100)
    path = tmp_path / "state.sqlite"
    async with open_store(path) as store:
        await store.write(say)
        with held(path):
            for _ in range(3):
                store.post(say)
                with anyio.fail_after(60), pytest.raises(StoreFailedError):
                    await store.write(say)
        store.post(wrong)
        await store.write(say)
    told = [one for one in caplog.records if one.name == "skerry.store.writer"]
    assert [(one.levelname, bool(one.exc_info)) for one in told] == [
        ("WARNING", False),
        ("ERROR", True),
    ]
    assert "locked" in told[0].getMessage()


def wrong(unit: Unit) -> None:
    raise ValueError(unit)
