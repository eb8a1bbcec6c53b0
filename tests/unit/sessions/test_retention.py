"""Retention of conversations: no conversation of the owner is removed without a notice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.session import MaintenanceConfig
from skerry.config.webhooks import WebhooksConfig
from skerry.hooks.hooks import Hooks
from skerry.model import message
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.run import RunRequest
from skerry.model.session import SessionSettings
from skerry.sessions.retention import RetentionPlan, carry_out, plan, plan_one_off, summary
from skerry.store import Store, Unit, archive, open_store, runs, sessions
from skerry.store.indexing import fill
from skerry.store.mirror import Mirror
from skerry.store.retention import RetainedSession, retained
from skerry.store.transcript_search import TranscriptQuery, search

DAY = 86_400_000
NOW = 1_000 * DAY


def session(name: str, used: float, archived: float = 0, **fields: Any) -> RetainedSession:
    retained = RetainedSession(
        SessionId(name),
        f"agent:main:{name}",
        "main",
        int(NOW - used * DAY),
        int(NOW - archived * DAY) if archived else 0,
        100,
        pinned=False,
        busy=False,
    )
    return replace(retained, **fields)


def limits(**values: Any) -> MaintenanceConfig:
    return MaintenanceConfig.model_validate(values)


def names(due: RetentionPlan) -> tuple[list[str], list[str]]:
    return (
        [due_session.session.session_id for due_session in due.archive],
        [due_session.session.session_id for due_session in due.remove],
    )


def test_what_is_unused_is_archived_and_what_was_archived_long_ago_removed() -> None:
    stored = [
        session("old", 31),
        session("edge", 30),
        session("gone", 90, archived=31),
        session("kept", 90, archived=29),
        session("new", 1),
    ]
    assert names(plan(stored, limits(), NOW)) == (["old"], ["gone"])


@pytest.mark.parametrize(
    "spared",
    [
        session("main", 99),
        session("global", 99),
        session("x", 99, pinned=True),
        session("x", 99, busy=True),
    ],
)
def test_main_what_is_pinned_and_what_works_stay(spared: RetainedSession) -> None:
    assert plan([spared], limits(maxEntries=1), NOW) == RetentionPlan()


def test_ended_sub_agents_are_removed_in_any_mode_unless_somebody_uses_them() -> None:
    def sub_agent(name: str, archived: float, **fields: Any) -> RetainedSession:
        key = f"agent:main:subagent:{name}"
        return session(name, 40, archived, **({"key": key, "person_wrote": False} | fields))

    stored = [
        sub_agent("old", 31),
        sub_agent("new", 29),
        sub_agent("present", 0),
        sub_agent("asked", 31, person_wrote=True),
        sub_agent("pinned", 31, pinned=True),
        sub_agent("busy", 31, busy=True),
        session("other", 40, 31, person_wrote=False),
    ]
    due = plan_one_off(stored, WebhooksConfig(), 30 * DAY, NOW)
    assert names(due) == ([], ["old"])


def test_of_too_many_those_unused_for_longest_go_for_each_agent() -> None:
    stored = [session(f"s{n}", 20 - n) for n in range(4)]
    stored.append(session("other", 25, agent_id="work"))
    assert names(plan(stored, limits(maxEntries=2), NOW)) == (["s0", "s1"], [])


def test_the_oldest_archived_make_room_until_it_is_enough() -> None:
    mib = 1 << 20
    stored = [session(f"a{n}", 20, archived=20 - n, size=mib) for n in range(3)]
    stored.append(session("present", 1, size=mib))
    assert names(plan(stored, limits(maxDiskBytes="2mb"), NOW)) == ([], ["a0", "a1"])
    assert names(plan(stored, limits(maxDiskBytes="1mb"), NOW)) == ([], ["a0", "a1", "a2"])
    assert names(plan(stored, limits(maxDiskBytes="4mb"), NOW)) == ([], [])


kinds = st.builds(
    session,
    st.sampled_from(["main", "a", "b", "c:d"]),
    st.floats(0, 100),
    st.sampled_from([0, 1, 29, 31, 80]),
    pinned=st.booleans(),
    busy=st.booleans(),
    size=st.integers(0, 3 << 20),
)


@given(st.lists(kinds, max_size=12), st.integers(1, 5), st.sampled_from([None, "1mb", "4mb"]))
def test_a_plan_removes_only_what_is_archived_and_archives_only_what_is_present(
    found: list[RetainedSession], most: int, disk: str | None
) -> None:
    found.sort(key=lambda session_: session_.updated_at)
    config = limits(maxEntries=most) if disk is None else limits(maxDiskBytes=disk)
    due = plan(found, config, NOW)
    assert all(due_session.session.archived_at for due_session in due.remove)
    for due_session in due.archive:
        assert not due_session.session.archived_at
        assert not due_session.session.pinned
        assert not due_session.session.busy
        assert due_session.session.key != "agent:main:main"
    assert len({id(due_session.session) for due_session in (*due.archive, *due.remove)}) == len(
        due.archive
    ) + len(due.remove)


def talk(unit: Unit, scope: str, words: str, at: int) -> str:
    key = SessionKey.parse(scope)
    session_id, tail = sessions.ensure(unit, key, SessionId(f"id-{scope}"), at)
    sessions.append(unit, session_id, tail, "r", [message.user(words, at)], at, person_wrote_at=at)
    return session_id


async def pass_once(store: Store, agents: Path, **values: Any) -> RetentionPlan:
    due = plan(await store.read(retained), limits(**values), NOW)
    return await carry_out(store, Hooks(), agents, due, NOW)


@pytest.mark.requirement("agent-lifecycle-cleanup")
async def test_what_is_due_is_archived_then_removed_with_its_file_and_its_words(
    tmp_path: Path,
) -> None:
    agents = tmp_path / "agents"
    mirror = Mirror(agents, tmp_path)
    async with open_store(tmp_path / "state.sqlite", on_commit=mirror.touched.add) as store:
        session_id = await store.write(lambda unit: talk(unit, "trip", "blue boat", 1))
        await store.write(lambda unit: talk(unit, "main", "red house", 1))
        await fill(store, [session_id])
        await mirror.flush(store)
        folder = agents / "main" / "sessions"
        executed = await pass_once(store, agents)
        assert names(executed) == ([session_id], [])
        await mirror.flush(store)
        files = {path.name.split(".jsonl")[1][:7] for path in folder.glob("id-trip*")}
        assert files == {".reset."}
        results = await search(store, TranscriptQuery(SessionKey.parse("trip"), "boat"))
        assert [hit.session_id for hit in results.hits] == [session_id]
        due = plan(await store.read(retained), limits(), NOW + 31 * DAY)
        executed = await carry_out(store, Hooks(), agents, due, NOW + 31 * DAY)
        assert names(executed) == ([], [session_id])
        assert list(folder.glob("id-trip*")) == []
        assert await store.read(lambda reader: sessions.get(reader, session_id)) is None
        assert (await search(store, TranscriptQuery(SessionKey.parse("trip"), "boat"))).hits == []
        rows = await store.read(
            lambda reader: reader.all("SELECT 1 FROM entry WHERE session_id = ?", (session_id,))
        )
        assert rows == []
        await store.write(
            lambda unit: unit.execute(
                "INSERT INTO entry_text (entry_text) VALUES ('integrity-check')"
            )
        )
        await mirror.repair(store)
        assert list(folder.glob("id-trip*")) == []


async def test_what_somebody_uses_meanwhile_stays(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        await store.write(lambda unit: talk(unit, "spoken", "a", 1))
        await store.write(lambda unit: talk(unit, "asked", "a", 1))
        await store.write(lambda unit: talk(unit, "restored", "a", 1))
        key = SessionKey.parse("restored")
        old = await store.write(lambda unit: archive.delete(unit, key, 1))
        due = plan(await store.read(retained), limits(), NOW)
        assert names(due) == (["id-asked", "id-spoken"], ["id-restored"])
        assert old is not None
        await store.write(lambda unit: archive.restore(unit, old, NOW))
        await store.write(lambda unit: talk(unit, "spoken", "b", NOW))
        run = RunRequest(RunId("r1"), SessionKey.parse("asked"), "wait")
        await store.write(lambda unit: runs.add(unit, run, SessionId("id-asked"), 0, NOW))
        assert await carry_out(store, Hooks(), tmp_path, due, NOW) == RetentionPlan()
        rows = await store.read(retained)
        assert [row.archived_at for row in rows] == [0, 0, 0]


async def test_a_pinned_conversation_is_known_as_one(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        session_id = await store.write(lambda unit: talk(unit, "trip", "a", 1))
        settings = SessionSettings(pinned=True)
        await store.write(
            lambda unit: archive.change(unit, session_id, label="", settings=settings)
        )
        assert await pass_once(store, tmp_path) == RetentionPlan()


def test_the_log_says_what_would_be_and_how() -> None:
    due = plan([session("old", 31)], limits(), NOW)
    assert "1 conversations would be archived" in summary(due, completed=False)
    assert "skerry sessions prune --dry-run" in summary(due, completed=False)
    assert summary(due, completed=True).startswith(
        "session.maintenance: 1 conversations were archived"
    )
