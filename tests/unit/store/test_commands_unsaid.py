"""Commands to the gateway and their answers are not found by a search."""

from pathlib import Path

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import AgentId, SessionId
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage, command_answer, notice
from skerry.model.redaction import Redaction
from skerry.store import DATABASE, Store, Unit, archive, open_store, retention, sessions
from skerry.store.forgetting import redact
from skerry.store.index_words import plain
from skerry.store.indexing import behind, fill
from skerry.store.state_schema import STEPS
from skerry.store.transcript_search import TranscriptQuery, search
from tests.support.core import MAIN

ID = SessionId("s1")


def answer(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "", "", "", Usage(), "stop", 1)


async def say(store: Store, *messages: Message) -> None:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, MAIN, ID, 1)
        sessions.append(unit, session_id, tail, "r", messages, 1)

    await store.write(work)


async def texts_found(store: Store, text: str) -> list[str]:
    result = await search(store, TranscriptQuery(MAIN, text, limit=20))
    return [hit.excerpt.text for hit in result.hits]


async def sound(store: Store) -> None:
    check = "INSERT INTO entry_text (entry_text) VALUES ('integrity-check')"
    await store.write(lambda unit: unit.execute(check))


async def test_commands_their_answers_and_notices_are_not_found(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, message.user("my boat is blue", 1), answer("noted"))
        for number in range(30):
            question = message.user(f"/recall boat blue {number}", 1)
            await say(store, question)
            await texts_found(store, "anything")  # a search may run before the answer is stored
            await say(store, command_answer("1. my boat is blue", 1), notice("a blue boat", 1))
        assert await texts_found(store, "blue boat") == ["my boat is blue"]
        assert await store.read(behind) == []
        await sound(store)


async def test_a_path_that_a_model_was_asked_about_is_found(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, message.user("/etc/hosts has a boat", 1))
        assert await texts_found(store, "boat") == []
        await say(store, answer("so it has"))
        assert await texts_found(store, "boat") == ["/etc/hosts has a boat"]


async def test_commands_are_not_in_the_context_of_a_hit(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, message.user("/status", 1), command_answer("all is well", 1))
        await say(store, message.user("my boat is blue", 1), answer("noted"))
        await say(store, message.user("/think high", 1), command_answer("it thinks", 1))
        (hit,) = (await search(store, TranscriptQuery(MAIN, "boat"))).hits
    assert hit.before is None
    assert hit.after is not None
    assert hit.after.text == "noted"


async def test_what_is_removed_or_forgotten_leaves_the_index_sound(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, message.user("/note zebra", 1), command_answer("zebra noted", 1))
        await say(store, message.user("a zebra. Fine.", 1), answer("a zebra"))
        await say(store, message.user("/note zebra", 1))
        await fill(store, [ID])
        await redact(store, AgentId("main"), Redaction(["a zebra"]))
        assert await texts_found(store, "zebra") == []
        await sound(store)
        await store.write(lambda unit: archive.archive_unused(unit, MAIN, 1))
        await store.write(lambda unit: retention.remove(unit, ID))
        rows = await store.read(lambda reader: reader.all("SELECT rowid FROM entry_text('zebra')"))
        assert rows == []
        await sound(store)


async def test_an_index_of_the_version_before_is_filled_again(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    version = next(at for at, step in enumerate(STEPS) if "'delete-all'" in step)
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:version])
    connection.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, tail)"
        " VALUES ('s1', 'agent:main:main', 'main', 'direct', 1, 1, 4)"
    )
    messages: list[Message] = [
        message.user("a blue boat", 1),
        answer("noted"),
        message.user("/think boat", 1),
        command_answer("no", 1),
    ]
    for seq, entry_message in enumerate(messages, 1):
        row = (seq, seq - 1, message.encode(entry_message))
        connection.execute(
            "INSERT INTO entry (session_id, seq, parent, at, run_id, body)"
            " VALUES ('s1', ?, ?, 1, 'r', ?)",
            row,
        )
        connection.execute(
            "INSERT INTO entry_text (rowid, text) VALUES (?, ?)",
            (1 << 32 | seq, plain(entry_message)),
        )
    connection.execute("INSERT INTO entry_indexed VALUES (1, 's1', 4)")
    connection.commit()
    connection.close()
    async with open_store(path) as store:
        assert await store.read(behind) == ["s1"]
        assert await texts_found(store, "boat") == ["a blue boat"]
        await sound(store)
