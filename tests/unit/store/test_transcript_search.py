"""The search over transcripts: its hits, and the conversations that it covers."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import AssistantMessage, TextBlock, Usage
from skerry.model.recall import TranscriptHit
from skerry.model.session import entry_id
from skerry.store import DATABASE, Store, Unit, archive, open_store, sessions
from skerry.store.indexing import Indexer, behind
from skerry.store.state_schema import STEPS
from skerry.store.transcript_search import TranscriptQuery, search

MAIN = SessionKey.main()


def answer(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "", "", "", Usage(), "stop", 1)


async def say(
    store: Store, key: SessionKey, *texts: str | AssistantMessage, new_id: str = ""
) -> None:
    def work(unit: Unit) -> int:
        session_id, tail = sessions.ensure(unit, key, SessionId(new_id or str(key)), 1)
        messages = [message.user(text, 1) if isinstance(text, str) else text for text in texts]
        return sessions.append(unit, session_id, tail, "r", messages, 1)

    await store.write(work)


async def search_hits(
    store: Store, text: str, key: SessionKey = MAIN, **filters: object
) -> Sequence[TranscriptHit]:
    result = await search(store, TranscriptQuery(key, text, **filters))  # type: ignore[arg-type]
    assert result.complete
    return result.hits


async def test_a_recent_message_is_found_with_its_context(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "one", "My dog is called Bello.", "three", "the weather")
        (hit,) = await search_hits(store, "what is the name of my dog")
    assert (hit.excerpt.text, hit.excerpt.role) == ("My dog is called Bello.", "user")
    assert hit.excerpt.entry == entry_id(2)
    assert (hit.before and hit.before.text, hit.after and hit.after.text) == ("one", "three")


async def test_more_of_the_words_come_first_and_stems_count(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "boats are wet", "x", "a blue boat in the harbour", "y")
        hits = await search_hits(store, "blue boats harbours")
        assert [hit.excerpt.seq for hit in hits] == [3, 1]
        assert len(await search_hits(store, "boat", limit=1)) == 1


async def test_an_exchange_whose_question_and_answer_both_match_is_one_hit(tmp_path: Path) -> None:
    long = "Your boat is blue. " + "It is wet. " * 60 + "The blue boat is in the harbour."
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "which boat is blue", answer(long), "x", "y", "a boat", "z")
        hits = await search_hits(store, "blue boat", limit=2)
    assert sorted(hit.excerpt.seq for hit in hits) in ([1, 5], [2, 5])
    numbers = [entry.seq for hit in hits for entry in (hit.before, hit.excerpt, hit.after) if entry]
    assert len(numbers) == len(set(numbers))
    first = next(hit for hit in hits if hit.excerpt.seq < 5)
    shown_entry = first.excerpt if first.excerpt.seq == 2 else first.after
    assert shown_entry is not None
    assert len(shown_entry.text) > 400


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("我昨天在东京买了一本书", "东京"),
        ("我昨天在东京买了一本书", "书"),
        ("犬の名前はポチです", "ポチ"),
        ("Die Größe ist 42", "grosse größe"),
        ("Ünïcödé", "unicode"),
    ],
)
async def test_any_script_is_found(tmp_path: Path, text: str, asked: str) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "something else", text)
        assert [hit.excerpt.text for hit in await search_hits(store, asked)] == [text]


async def test_earlier_incarnations_are_found_and_deleted_ones_are_not(tmp_path: Path) -> None:
    chat = SessionKey.parse("agent:main:chat")
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, chat, "the treasure is buried", new_id="a")
        await store.write(lambda unit: archive.reset(unit, chat, SessionId("b"), 2))
        (hit,) = await search_hits(store, "treasure", chat)
        assert hit.archived
        assert not await search_hits(store, "treasure", chat, within=SessionId("b"))
        await store.write(lambda unit: archive.delete(unit, chat, 3))
        await say(store, chat, "again", new_id="c")
        assert len(await search_hits(store, "treasure", chat)) == 1
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(
            lambda unit: unit.execute(
                "UPDATE session SET archived = 'deleted' WHERE key = ?", (str(chat),)
            )
        )
        assert not await search_hits(store, "treasure", chat)


OTHER_KEYS = (
    "agent:main:telegram:direct:4711",
    "agent:main:direct:alice",
    "agent:main:telegram:group:1",
    "agent:main:discord:channel:2",
    "agent:main:global",
    "agent:main:subagent:5",
    "agent:main:hook:6",
    "agent:work:main",
)


@pytest.mark.parametrize("other", OTHER_KEYS)
async def test_the_context_of_one_person_is_never_shown_to_another(
    tmp_path: Path, other: str
) -> None:
    key = SessionKey.parse(other)
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "the secret of the owner")
        await say(store, key, "the secret of somebody else")
        for wide in (False, True):
            other_hits = await search_hits(store, "secret", key, owner_conversations=wide)
            assert {hit.key for hit in other_hits} == {other}
            owner_hits = await search_hits(store, "secret", owner_conversations=wide)
            assert {hit.key for hit in owner_hits} == {str(MAIN)}


async def test_the_owner_finds_their_other_conversations_where_they_ask(tmp_path: Path) -> None:
    notes = SessionKey.parse("agent:main:notes")
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, notes, "the key is under the mat")
        assert not await search_hits(store, "key mat")
        assert {
            hit.key for hit in await search_hits(store, "key mat", owner_conversations=True)
        } == {str(notes)}


async def test_the_question_itself_is_left_out(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "where is the cat", "where is the cat")
        hits = await search_hits(store, "cat", until=(SessionId(str(MAIN)), 2))
        assert [hit.excerpt.seq for hit in hits] == [1]


async def test_an_old_database_is_indexed_while_the_gateway_runs(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    old = sqlite3.connect(path, isolation_level=None)
    sqlite.migrate(old, path, STEPS[:3])
    old.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, tail)"
        " VALUES ('s', 'agent:main:main', 'main', 'direct', 1, 1, 450)"
    )
    bodies = [message.encode(message.user(f"the old story of {n}", 1)) for n in range(1, 451)]
    old.executemany(
        "INSERT INTO entry VALUES ('s', ?, ?, 1, 'r', ?)",
        [(n, n - 1, body) for n, body in enumerate(bodies, 1)],
    )
    old.close()
    async with open_store(path) as store:
        assert await store.read(behind) == ["s"]
        assert len(await search_hits(store, "story", limit=50)) == 50
        assert await store.read(behind) == []


async def test_the_index_follows_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.store.indexing.COLLECT_SECONDS", 0)
    indexer = Indexer()
    async with (
        open_store(tmp_path / DATABASE, on_commit=indexer.touched.add) as store,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(indexer.run, store))
        await say(store, MAIN, "hello")
        with anyio.fail_after(60):
            while await store.read(behind):
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_words_spread_over_an_exchange_tell_more_than_one_entry_with_some(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, "Anna could choose a colour for the bus.", "x", "y", "z")
        await say(
            store,
            MAIN,
            "Anna wants to paint the kitchen.",
            answer("She could choose any colour: sage green goes with oak."),
            "Sage green it is.",
        )
        first, second = await search_hits(
            store, "which colour did Anna choose for the kitchen", limit=2
        )
    assert "bus" in second.excerpt.text
    assert first.excerpt.seq in {5, 6}
    assert "sage green" in " ".join(entry.text for entry in (first.excerpt, first.after) if entry)


async def test_a_phrase_in_quotes_and_an_identifier_lead(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(
            store, MAIN, "err in the log 42 of conn", "conn err: 42, 42, err, conn, conn, err"
        )
        await say(store, MAIN, *(f"the red boat has a blue door, {n}" for n in range(20)))
        await say(store, MAIN, "what a blue boat", "ERR_CONN_42 came again, see the red log", "x")
        assert (await search_hits(store, '"blue boat" with a red door'))[
            0
        ].excerpt.text == "what a blue boat"
        hits = await search_hits(store, "what does ERR_CONN_42 mean, err conn")
        assert hits[0].excerpt.text.startswith("ERR_CONN_42")


async def test_what_was_answered_again_is_shown_once_and_another_answer_too(tmp_path: Path) -> None:
    question = "What is the code of the gate?"
    async with open_store(tmp_path / DATABASE) as store:
        for code in ("4711", "4711", "0815"):
            await say(store, MAIN, question, answer(f"The code is {code}."))
        hits = await search_hits(store, "code gate")
    text = " ".join(entry.text for hit in hits for entry in (hit.excerpt, hit.after) if entry)
    assert len(hits) == 2
    assert "0815" in text
    assert "4711" in text
