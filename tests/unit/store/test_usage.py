"""The ledger's tables: rows and sums, the migration of older databases, and pruning."""

import sqlite3
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest

from skerry.infra import sqlite
from skerry.infra.clock import DAY_MS
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import Cost, Usage
from skerry.model.run import Purpose, RunRequest, RunResult, StopReason
from skerry.store import Store, Unit, open_store, usage
from skerry.store.state_schema import STEPS
from skerry.store.unit import AT_ONCE
from skerry.store.usage import BookedCall, CallOutcome, Sums, UsageGroup
from tests.support.ledger import call

BEFORE = next(n for n, step in enumerate(STEPS) if "CREATE TABLE model_call" in step)


async def booked(store: Store, *calls: BookedCall) -> None:
    def write(unit: Unit) -> None:
        for call_ in calls:
            usage.book(unit, call_)

    await store.write(write)


async def test_calls_are_added_up_by_what_is_asked(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        await booked(
            store,
            call(10),
            call(20, agent="other", model="n", priced=False, session="t"),
            call(5, outcome=CallOutcome.ERROR),
            call(40, day="2026-11-23"),
        )
        first, last = "2026-11-22", "2026-11-22"
        days = await store.read(lambda reader: usage.daily(reader, first, last))
        assert days == {
            first: Sums(3, 1, 0, 1, 35, 0, 0, 0, 1.5, 0.0, 0.0, 0.0, 1.5),
        }
        for by, names in (
            (UsageGroup.MODEL, ["p/m", "p/n"]),
            (UsageGroup.AGENT, ["main", "other"]),
            (UsageGroup.CHANNEL, ["webchat"]),
            (UsageGroup.PURPOSE, ["message"]),
            (UsageGroup.SESSION, ["s", "t"]),
        ):
            sums = await store.read(
                lambda reader, by=by: usage.grouped(reader, by, first, last)  # type: ignore[misc]
            )
            assert list(sums) == names
            assert usage.total(sums.values()) == days[first]
        (own_sums,) = (
            await store.read(lambda reader: usage.daily(reader, first, last, "other"))
        ).values()
        assert (own_sums.calls, own_sums.tokens, own_sums.cost, own_sums.unpriced) == (
            1,
            20,
            0.0,
            1,
        )


async def test_a_rider_is_written_with_the_next_unit_and_again_after_a_full_disk(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        store.ride(lambda unit: usage.book(unit, call(7)))
        assert await counted(store) == []
        full = True

        def full_once(unit: Unit) -> None:
            if full:
                raise sqlite3.OperationalError("database or disk is full")
            usage.book(unit, call(8))

        store.ride(full_once)
        await store.write(lambda _: None)
        assert await counted(store) == [7]
        full = False
        await store.write(lambda _: None)
        assert await counted(store) == [7, 8]
        store.ride(lambda unit: usage.book(unit, call(9)))
    async with open_store(tmp_path / "state.sqlite") as store:
        assert await counted(store) == [7, 8, 9]


async def test_a_rider_stays_when_the_unit_that_it_rides_with_fails(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:

        def failing(_: Unit) -> None:
            message = "wrong"
            raise ValueError(message)

        store.ride(lambda unit: usage.book(unit, call(7)))
        with pytest.raises(ValueError, match="wrong"):
            await store.write(failing)
        assert await counted(store) == [7]


async def folded(store: Store) -> None:
    while await store.write(usage.fold):
        pass


async def counted(store: Store) -> list[int]:
    rows = await store.read(lambda reader: reader.all("SELECT input FROM model_call"))
    return [row[0] for row in rows]


async def test_old_rows_go_and_the_sums_of_their_days_stay(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        await booked(store, call(10, at=1), call(20, at=2), call(40, at=3))
        before = await store.read(lambda reader: usage.daily(reader, "2026-11-22", "2026-11-22"))
        assert await store.write(lambda unit: usage.prune(unit, 3)) == 0, "they are in no sum yet"
        assert not await store.write(usage.fold)
        assert await store.write(lambda unit: usage.prune(unit, 3)) == 2
        assert await store.write(lambda unit: usage.prune(unit, 3)) == 0
        assert await counted(store) == [40]
        after = await store.read(lambda reader: usage.daily(reader, "2026-11-22", "2026-11-22"))
        assert after == before


async def test_a_year_of_many_calls_is_read_from_few_rows(tmp_path: Path) -> None:
    start = date(2025, 11, 23)
    async with open_store(tmp_path / "state.sqlite") as store:
        days = [str(start + timedelta(days=number)) for number in range(365)]
        await booked(store, *(call(1, day=day) for day in days for _ in range(20)))
        await folded(store)
        rows = await store.read(lambda reader: reader.one("SELECT count(*) FROM usage_day"))
        assert rows == (365,)
        sums = await store.read(lambda reader: usage.daily(reader, days[0], days[-1]))
        assert len(sums) == 365
        assert usage.total(sums.values()).calls == 365 * 20
        statement = (
            f"EXPLAIN QUERY PLAN SELECT sum(input) FROM {usage._USED} WHERE day BETWEEN ? AND ?"  # noqa: S608 - a constant
        )
        plan = await store.read(lambda reader: reader.all(statement, ("1", "2")))
        steps = " ".join(row[3] for row in plan)
        assert "usage_day USING PRIMARY KEY (day>? AND day<?)" in steps
        assert "model_call USING INDEX model_call_unfolded (day>? AND day<?)" in steps


async def test_calls_are_folded_once_and_the_sums_are_the_same_before_and_after(
    tmp_path: Path,
) -> None:
    """The sums of two days, one call without a price, and one that is booked after the fold."""
    first, last = "2026-11-21", "2026-11-22"
    calls = [call(number, day=first) for number in range(AT_ONCE + 1)]
    async with open_store(tmp_path / "state.sqlite") as store:
        await booked(store, *calls, call(7, day=last, priced=False))
        before = await store.read(lambda reader: usage.grouped(reader, UsageGroup.DAY, first, last))
        await folded(store)
        stored = "SELECT count(*), sum(calls), sum(unpriced) FROM usage_day"
        assert await store.read(lambda reader: reader.one(stored)) == (2, len(calls) + 1, 1)
        await folded(store)
        after = await store.read(lambda reader: usage.grouped(reader, UsageGroup.DAY, first, last))
        assert after == before
        await booked(store, call(9, day=first))
        now = await store.read(lambda reader: usage.grouped(reader, UsageGroup.DAY, first, last))
        assert now[first].input == before[first].input + 9
        await folded(store)
        repeated = await store.read(
            lambda reader: usage.grouped(reader, UsageGroup.DAY, first, last)
        )
        assert repeated == now


async def test_a_turn_changes_no_row_that_another_conversation_changes(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        await booked(store, call(1))
        await store.write(lambda unit: usage.count_tool(unit, "2026-11-22", "main", "a"))
        changed = "SELECT count(*) FROM usage_day"
        assert await store.read(lambda reader: reader.one(changed)) == (0,)
        for key in ("a", "b"):
            await store.write(partial(usage.count_tool, day="2026-11-22", agent="main", key=key))
        tools = "SELECT key, calls FROM tool_day ORDER BY key"
        assert await store.read(lambda reader: reader.all(tools)) == [("a", 2), ("b", 1)]
        used = await store.read(lambda reader: usage.tools_of_day(reader, "2026-11-22"))
        assert used == {"main": 3}
        await store.write(lambda unit: usage.drop_tools(unit, "2026-11-23"))
        assert await store.read(lambda reader: usage.tools_of_day(reader, "2026-11-22")) == {}


def ended(run_id: str, at: int, used: Usage, provider: str = "p") -> RunResult:
    return RunResult(
        run_id=RunId(run_id),
        session_key="agent:home:main",
        session_id=SessionId("s"),
        stop_reason=StopReason.DONE,
        payloads=(),
        provider=provider,
        model="m",
        usage=used,
        started_at=at - 2000,
        ended_at=at,
    )


_RUN = (
    "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, result)"
    " VALUES (?, ?, 's', ?, 1, ?)"
)


def older(path: Path) -> None:
    """Writes a database of the version before, with runs that have ended, and one that has not."""
    old = sqlite.connect(path)
    sqlite.migrate(old, path, STEPS[:BEFORE])
    key = SessionKey.parse("agent:home:main")
    to = ReplyTo(ChannelId("telegram"), AccountId("a"), Peer(PeerKind.DIRECT, "7"), "m1")
    paid = Usage(5, 6, 7, 8, 26, Cost(0.1, 0.2, 0.3, 0.4, 1.0))
    for result, request in (
        (ended("1", 10 * DAY_MS, Usage(100, 10)), RunRequest(RunId("1"), key, "x", reply_to=to)),
        (ended("2", 10 * DAY_MS, paid), RunRequest(RunId("2"), key, "x", purpose=Purpose.BOOT)),
        (ended("3", 10 * DAY_MS, Usage(), ""), RunRequest(RunId("3"), key, "/status")),
        (ended("4", 11 * DAY_MS, Usage(1)), RunRequest(RunId("4"), key, "y" * 70_000)),
    ):
        request_json, result_json = msgspec.json.encode(request), msgspec.json.encode(result)
        request_json = b"" if len(request_json) > 65_536 else request_json  # as that version did
        old.execute(_RUN, (request.run_id, str(key), request_json, result_json))
    old.execute(
        _RUN, ("5", str(key), msgspec.json.encode(RunRequest(RunId("5"), key, "open")), None)
    )
    old.close()


async def test_an_older_database_s_runs_are_taken_over_once(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    older(path)
    for _ in range(2):
        async with open_store(path) as store:
            days = await store.read(lambda reader: usage.daily(reader, "1970-01-01", "1970-12-31"))
            assert list(days) == ["1970-01-11", "1970-01-12"]
            first, second = days.values()
            assert (first.calls, first.unpriced, first.input, first.cache_write) == (2, 1, 105, 8)
            assert first.cost == pytest.approx(1.0)
            assert first.seconds == 4.0
            assert (second.calls, second.tokens) == (1, 1)
            channels = await store.read(
                lambda reader: usage.grouped(reader, UsageGroup.CHANNEL, "1970-01-01", "1970-12-31")
            )
            assert {name: group_sums.calls for name, group_sums in channels.items()} == {
                "telegram": 1,
                "webchat": 2,
            }
            purposes = await store.read(
                lambda reader: usage.grouped(
                    reader, UsageGroup.PURPOSE, "1970-01-01", "1970-12-31", "home"
                )
            )
            assert {name: group_sums.calls for name, group_sums in purposes.items()} == {
                "message": 2,
                "boot": 1,
            }
