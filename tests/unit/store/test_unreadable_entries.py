"""A row with changed bytes is skipped and reported; all other rows are read."""

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from skerry.infra import sqlite
from skerry.model.ids import SessionId
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from skerry.runtime.conversation import ConversationCache
from skerry.sessions import recovering
from skerry.store import (
    DATABASE,
    Store,
    open_store,
    recovered_lines,
    session_listing,
    sessions,
    unreadable_entries,
    utterances,
)
from skerry.store.condition import Storage
from skerry.store.indexing import fill
from skerry.store.session_listing import SessionFilter
from tests.unit.store.test_mirror import Files, say

BREAKS = {
    "its text": "UPDATE entry SET body = CAST(x'7bff' || body AS BLOB) WHERE seq = 2",
    "half of it": "UPDATE entry SET body = substr(body, 1, 20) WHERE seq = 2",
    "its run": "UPDATE entry SET run_id = CAST(x'ff41' AS TEXT) WHERE seq = 2",
    "its kind": "UPDATE entry SET kind = CAST(x'ff41' AS TEXT) WHERE seq = 2",
    "its place": "UPDATE entry SET parent = 'x' WHERE seq = 2",
}


def damage(home: Path, sql: str) -> None:
    connection = sqlite.connect(home / DATABASE)
    connection.execute(sql)
    connection.close()


@pytest.fixture
async def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(partial(say, texts=["one", "two", "three"]))
        await files.start(store)
    return files


async def texts(store: Store) -> list[str]:
    entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


@pytest.mark.parametrize("broken", BREAKS)
async def test_it_is_named_and_the_rest_is_read_and_goes_on(files: Files, broken: str) -> None:
    damage(files.home, BREAKS[broken])
    async with open_store(files.home / DATABASE) as store:
        (problem,) = await store.check(whole=False)
        assert "entry 2 of session s1" in problem
        assert store.condition.storage is Storage.CORRUPT
        assert "entry 2 of session s1" in store.condition.problem[0]
        assert "recovered" in store.condition.problem[1]
        store.refuse_damaged()  # new work is taken
        assert await store.works()
        store.condition.note_failure(sqlite3.OperationalError("the disk"))
        assert not store.condition.works
        if broken != "its place":
            assert set(await texts(store)) >= {"one", "three"}
        await store.write(partial(say, texts=["four"]))
        assert (await texts(store))[-1] == "four"
        await fill(store, ["s1"])
        session_filter = SessionFilter(search="one")
        assert await store.read(lambda reader: session_listing.count(reader, session_filter)) == 1
        spoken = await store.read(lambda reader: utterances.of_session(reader, "s1"))
        assert {utterance.text for utterance in spoken} >= {"one", "three", "four"}
        await files.start(store)


async def test_the_first_read_reports_it(files: Files) -> None:
    damage(files.home, BREAKS["its run"])
    async with open_store(files.home / DATABASE) as store:
        assert await texts(store) == ["one", "three"]
        assert store.condition.storage is Storage.CORRUPT


@pytest.mark.parametrize("broken", BREAKS)
async def test_its_transcript_file_mends_it_also_after_a_rebuild(files: Files, broken: str) -> None:
    whole = files.file.read_bytes()
    damage(files.home, BREAKS[broken])
    async with open_store(files.home / DATABASE) as store:
        await files.mirror().rebuild(store)  # it must keep entries that only the file has
        paths = [Path(kept_file.file) for kept_file in recovered_lines.every(files.home)]
        assert [kept_file.read_bytes() for kept_file in paths] == [whole]
        (damaged,) = await store.scan(unreadable_entries.scan)
        assert await store.write(lambda unit: recovering.mend(unit, damaged, paths))
        assert await store.check(whole=False) == []
        assert store.condition.storage is Storage.OK
        assert await texts(store) == ["one", "two", "three"]
        await files.mirror().rebuild(store)
        assert files.file.read_bytes() == whole


async def test_a_call_whose_result_is_lost_is_closed_for_the_model(tmp_path: Path) -> None:
    call = ToolCall("c1", "look", {})
    asks = AssistantMessage((call,), "a", "p", "m", Usage(), "toolUse", 2)
    result = ToolResultMessage("c1", "look", (TextBlock("seen"),), is_error=False, timestamp=3)
    says = AssistantMessage((TextBlock("done"),), "a", "p", "m", Usage(), "stop", 4)
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(partial(say, texts=["look"]))
        await store.write(
            lambda unit: sessions.append(unit, SessionId("s1"), 1, "r", [asks, result, says], 2)
        )
    damage(tmp_path, "UPDATE entry SET body = x'00' WHERE seq = 3")
    async with open_store(tmp_path / DATABASE) as store:
        conversation = await ConversationCache(store).get(SessionId("s1"), 5)
        (closed,) = [
            entry for entry in conversation.history.messages if isinstance(entry, ToolResultMessage)
        ]
        assert (closed.tool_call_id, closed.is_error) == ("c1", True)
        assert len(conversation.history.messages) == 4
    damage(tmp_path, "UPDATE entry SET body = x'00' WHERE seq = 2")
    async with open_store(tmp_path / DATABASE) as store:
        conversation = await ConversationCache(store).get(SessionId("s1"), 5)
        assert [type(entry) for entry in conversation.history.messages] == [
            UserMessage,
            AssistantMessage,
        ]
