"""Patterns that are always allowed: by agent, unique, with their last use."""

from pathlib import Path

import pytest

from skerry.runtime.allowlist import StoredAllowlist
from skerry.store import DATABASE, Store, Unit, allowlist, audit, open_store
from skerry.testing.clock import FakeClock


async def added(store: Store, *pairs: tuple[str, str]) -> list[bool]:
    def write(unit: Unit) -> list[bool]:
        return [allowlist.add(unit, agent, text, "person", "me", 1) for agent, text in pairs]

    return await store.write(write)


@pytest.mark.requirement("exec-allowlist-per-agent")
async def test_an_agent_has_its_own_patterns_and_those_of_all(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        pairs = (("main", "git status"), ("*", "ls"), ("ops", "df"), ("main", "git status"))
        assert await added(store, *pairs) == [True, True, True, False]
        stored = StoredAllowlist(store, FakeClock(9))
        assert await stored.patterns("main") == ("ls", "git status")
        assert await stored.patterns("ops") == ("ls", "df")
        assert await store.write(lambda u: allowlist.remove(u, "main", "git status", "me", 2))
        assert not await store.write(lambda u: allowlist.remove(u, "main", "ls", "me", 2))
        assert await stored.patterns("main") == ("ls",)
        kinds = [entry.kind for entry in await store.read(lambda r: audit.last(r, 9))]
        assert kinds == ["allowlist.added"] * 3 + ["allowlist.removed"]


@pytest.mark.requirement("exec-allowlist-audit")
async def test_the_last_use_is_noted_without_secrets(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await added(store, ("main", "git *"), ("ops", "git *"))
        stored = StoredAllowlist(store, FakeClock(9), lambda text: text.replace("sk-1", "***"))
        await stored.used("main", ("git *",), "git push sk-1", "/usr/bin/git")
        await added(store, ("main", "df"))  # the note is written with the next unit
        rows = {row.agent: row for row in await store.read(allowlist.patterns) if row.agent != "df"}
    main = next(row for row in rows.values() if row.agent == "ops")
    assert main.last_used_at is None
    async with open_store(tmp_path / DATABASE) as store:
        rows_of = await store.read(lambda reader: allowlist.patterns(reader, "main"))
    noted = next(row for row in rows_of if row.pattern == "git *")
    assert (noted.last_used_at, noted.last_command, noted.last_path) == (
        9,
        "git push ***",
        "/usr/bin/git",
    )


async def test_an_agent_has_so_many_patterns_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowlist, "MAX_PATTERNS", 2)
    async with open_store(tmp_path / DATABASE) as store:
        pairs = (("main", "a"), ("main", "b"), ("main", "c"), ("ops", "a"))
        assert await added(store, *pairs) == [True, True, False, True]
