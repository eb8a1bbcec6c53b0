"""Cooldowns of credentials in the state database, and the migration that adds them."""

from pathlib import Path

import pytest

from skerry.app.cooling import kept_cooldowns
from skerry.auth.cooldowns import Availability, Cooldowns, Reason
from skerry.infra import sqlite
from skerry.model.errors import ModelRateLimitError
from skerry.store import open_store
from skerry.store.state_schema import STEPS
from skerry.testing.clock import FakeClock

KEY = ("main/p:one", "p/m")
BEFORE = next(n for n, step in enumerate(STEPS) if "CREATE TABLE cooldown" in step)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


async def test_a_cooldown_survives_a_restart_and_ends_with_an_answer(path: Path) -> None:
    clock = FakeClock(1_000_000)
    async with open_store(path) as store:
        first = await kept_cooldowns(store, clock)
        first.failed(KEY, "stamp", ModelRateLimitError("429"), clock.now_ms())
    async with open_store(path) as store:
        second = await kept_cooldowns(store, clock)
        assert second.verdict(KEY, "stamp", clock.now_ms()) is Availability.COOLING
        (row,) = second.rows(clock.now_ms())
        assert (row.reason, row.failures, row.until) == (Reason.RATE_LIMIT, 1, 1_060_000)
        second.succeeded(KEY)
    async with open_store(path) as store:
        third: Cooldowns = await kept_cooldowns(store, clock)
        assert KEY not in third.by_key


async def test_what_ended_long_ago_is_forgotten(path: Path) -> None:
    clock = FakeClock(0)
    async with open_store(path) as store:
        first = await kept_cooldowns(store, clock)
        first.failed(KEY, "stamp", ModelRateLimitError("429"), clock.now_ms())
    async with open_store(path) as store:
        after_two_days = await kept_cooldowns(store, FakeClock(2 * 24 * 3_600_000))
        assert KEY not in after_two_days.by_key


async def test_an_older_database_keeps_its_rows_and_stores_cooldowns(path: Path) -> None:
    old = sqlite.connect(path)
    sqlite.migrate(old, path, STEPS[:BEFORE])
    old.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at)"
        " VALUES ('s', 'agent:main:main', 'main', 'direct', 1, 2)"
    )
    old.close()
    clock = FakeClock(5)
    async with open_store(path) as store:
        cooldowns_ = await kept_cooldowns(store, clock)
        cooldowns_.failed(KEY, "stamp", ModelRateLimitError("429"), clock.now_ms())
        sessions = await store.read(lambda reader: reader.one("SELECT key FROM session"))
        assert sessions == ("agent:main:main",)
    async with open_store(path) as store:
        assert KEY in (await kept_cooldowns(store, clock)).by_key
