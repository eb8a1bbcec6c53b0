"""Message counts are stored with the transcript, and follow each of its changes."""

from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from skerry.infra import sqlite
from skerry.infra.clock import begin
from skerry.model import message
from skerry.model.ids import AgentId, SessionId, SessionKey
from skerry.model.message import (
    AssistantMessage,
    CompactionMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from skerry.model.redaction import MARK, Redaction
from skerry.store import (
    DATABASE,
    Reader,
    Unit,
    archive,
    compactions,
    forgetting,
    message_counts,
    open_store,
    retention,
    sessions,
)
from skerry.store.message_counts import MessageCounts
from skerry.store.state_schema import STEPS

ZONE = "Europe/Berlin"
CALLS = (ToolCall("1", "read", {}), ToolCall("2", "read", {}), ToolCall("3", "zorblax", {}))
MESSAGES: tuple[Message, ...] = (
    message.user("hi", 1),
    AssistantMessage(CALLS, "a", "p", "m", Usage(), "toolUse", 1),
    ToolResultMessage("1", "read", (TextBlock("x"),), is_error=True, timestamp=1),
    AssistantMessage((TextBlock("y"),), "a", "p", "m", Usage(), "error", 1),
)
COUNTED = MessageCounts(user=1, assistant=2, tool_calls=3, tool_results=1, errors=2)


def at(day: str) -> int:
    return begin(date.fromisoformat(day), ZONE)


def say(unit: Unit, when: int) -> None:
    session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
    tail = sessions.append(unit, session_id, tail, "r", MESSAGES, when)
    summary = CompactionMessage((TextBlock("z"),), "a", "p", "m", Usage(), "stop", 1)
    compactions.add(unit, session_id, tail, summary, when, 0)


def counts(*days: str) -> Callable[[Reader], dict[str, MessageCounts]]:
    def read(reader: Reader) -> dict[str, MessageCounts]:
        by_day: dict[str, MessageCounts] = {}
        for _, day, day_counts in message_counts.by_day(reader, ["s"], days, at):
            by_day[day] = by_day.get(day, MessageCounts()).plus(day_counts)
        return by_day

    return read


def tools(reader: Reader) -> dict[str, int]:
    return {
        name: count for _, name, count in message_counts.by_tool(reader, ["s"], ["2026-10-01"], at)
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / DATABASE


async def test_messages_and_calls_are_counted_as_they_are_written(path: Path) -> None:
    async with open_store(path) as store:
        await store.write(lambda unit: say(unit, at("2026-10-01")))
        assert await store.read(counts("2026-10-01")) == {"2026-10-01": COUNTED}
        assert await store.read(tools) == {"read": 2, "zorblax": 1}


async def test_an_older_database_is_counted_by_its_upgrade_and_broken_rows_are_passed_over(
    path: Path,
) -> None:
    before = next(number for number, step in enumerate(STEPS) if "CREATE TABLE tally" in step)
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:before])
    bodies = [
        *map(message.encode, MESSAGES),
        b"{broken",
        b"[]",
        b'{"role":"user","content":"text"}',
    ]
    connection.executemany(
        "INSERT INTO entry (session_id, seq, parent, at, run_id, body)"
        " VALUES ('s', ?, 0, ?, '', ?)",
        [(seq, at("2026-10-01"), body) for seq, body in enumerate(bodies, 1)],
    )
    connection.close()
    async with open_store(path) as store:
        counted = {"2026-10-01": COUNTED._replace(user=2)}
        assert await store.read(counts("2026-10-01")) == counted
        await store.write(lambda unit: message_counts.recount(unit, "s"))
        assert await store.read(counts("2026-10-01")) == counted
        assert await store.read(tools) == {"read": 2, "zorblax": 1}


async def test_a_day_on_which_clocks_change_has_all_its_hours(path: Path) -> None:
    days = ["2026-10-24", "2026-10-25", "2026-10-26"]  # the second has 25 hours
    marks = [at(days[0]), at(days[1]) - 1, at(days[1]), at(days[2]) - 1, at(days[2])]
    assert at(days[2]) - at(days[1]) == 25 * 3_600_000
    async with open_store(path) as store:
        for mark in marks:
            await store.write(partial(say, when=mark))
        totals = await store.read(counts(*days))
        assert [totals[day].user for day in days] == [2, 2, 1]


async def test_the_name_of_a_tool_goes_with_what_is_forgotten_and_the_numbers_stay(
    path: Path,
) -> None:
    async with open_store(path) as store:
        await store.write(lambda unit: say(unit, at("2026-10-01")))
        await forgetting.redact(store, AgentId("main"), Redaction(["zorblax"]))
        assert await store.read(tools) == {"read": 2, MARK: 1}
        assert await store.read(counts("2026-10-01")) == {"2026-10-01": COUNTED}


async def test_what_is_removed_is_not_counted(path: Path) -> None:
    async with open_store(path) as store:
        await store.write(lambda unit: say(unit, at("2026-10-01")))
        await store.write(lambda unit: archive.reset(unit, SessionKey.main(), SessionId("t"), 2))
        assert await store.write(lambda unit: retention.remove(unit, "s"))
        assert await store.read(tools) == {}
