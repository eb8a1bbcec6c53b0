"""Idempotency keys: used in the unit of their effect, free after a day of gateway uptime."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skerry.infra import sqlite
from skerry.model.ids import RunId, SessionId
from skerry.model.message import Usage
from skerry.model.run import RunResult, StopReason
from skerry.store import DATABASE, Store, Unit, idempotency_keys, open_store, runs
from skerry.store.state_schema import STEPS
from tests.support.core import MAIN, request

NAME = ("sessions.reset", "k1")


def use(unit: Unit) -> None:
    idempotency_keys.use(unit, *NAME, b"content")


async def passed(store: Store, quarters: int) -> None:
    for _ in range(quarters):
        await store.write(idempotency_keys.pass_quarter)


def ended(run_id: str) -> RunResult:
    return RunResult(
        RunId(run_id), str(MAIN), SessionId("s1"), StopReason.DONE, ("x",), "", "", Usage(), 1, 2
    )


async def test_a_key_that_was_used_keeps_its_content_and_answer(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(use)
        await store.write(lambda unit: idempotency_keys.answer(unit, *NAME, b"{}"))
    async with open_store(tmp_path / DATABASE) as store:
        assert await store.read(
            lambda reader: idempotency_keys.find(reader, *NAME)
        ) == idempotency_keys.UsedKey(b"content", b"{}")
        assert await store.read(lambda reader: idempotency_keys.find(reader, "wake", "k1")) is None


async def test_a_key_that_is_used_twice_fails_its_unit(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(use)
        with pytest.raises(sqlite3.IntegrityError):
            await store.write(use)


async def test_keys_are_free_after_a_day_that_a_gateway_ran_and_not_before(tmp_path: Path) -> None:
    def accept(unit: Unit) -> None:
        use(unit)
        runs.add(unit, request("hi", "r1"), SessionId("s1"), 0, 1)
        runs.add(unit, request("open", "r2"), SessionId("s1"), 0, 1)
        runs.finish(unit, ended("r1"))

    async with open_store(tmp_path / DATABASE) as store:
        await store.write(accept)
        await passed(store, idempotency_keys.KEPT_QUARTERS)
        assert await store.read(lambda reader: runs.result(reader, "r1")) is not None
        assert await store.read(lambda reader: idempotency_keys.find(reader, *NAME)) is not None
        await passed(store, 1)
        assert await store.read(lambda reader: runs.find(reader, "r1")) is None
        assert await store.read(lambda reader: runs.find(reader, "r2")) is not None
        assert await store.read(lambda reader: idempotency_keys.find(reader, *NAME)) is None
        await store.write(lambda unit: runs.add(unit, request("hi", "r1"), SessionId("s1"), 0, 1))
        assert await store.read(idempotency_keys.passed) == idempotency_keys.KEPT_QUARTERS + 1


async def test_runs_of_the_version_before_answer_and_have_no_content_to_compare(
    tmp_path: Path,
) -> None:
    path = tmp_path / DATABASE
    with closing(sqlite.connect(path)) as connection:
        before = next(number for number, step in enumerate(STEPS) if "TABLE answered" in step)
        sqlite.migrate(connection, path, STEPS[:before])
        connection.execute(
            "INSERT INTO run (run_id, session_key, session_id, request, accepted_at)"
            " VALUES ('old', 'agent:main:main', 's1', '{}', 1)"
        )
        connection.execute(
            "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
            " created_at, updated_at) VALUES ('old', 0, 0, 'c', 'a', '{}', 'x', 1, 1)"
        )
    async with open_store(path) as store:
        other_request = request("anything", "old")
        assert not await store.read(lambda reader: runs.has_other_content(reader, other_request))
        rows = await store.read(lambda reader: reader.all("SELECT error, retry_at FROM outbox"))
        assert rows == [("", 0)]
