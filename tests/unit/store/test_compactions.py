"""The entry of a compaction in the store, the mirror, the search and the session's row."""

import json
from pathlib import Path

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import COMPACTION, CompactionMessage, TextBlock, Usage
from skerry.model.session import entry_id
from skerry.store import Store, Unit, compactions, open_store, sessions
from skerry.store.mirror import Mirror
from skerry.store.transcript_search import TranscriptQuery, search

MAIN = SessionKey.main()
ID = SessionId("s1")


def summary(first_kept: int, text: str = "We spoke of boats.") -> CompactionMessage:
    provider, name = COMPACTION
    content = (TextBlock(text),)
    return CompactionMessage(
        content, provider, provider, name, Usage(), "stop", 5, None, None, first_kept, 1234
    )


async def compacted(store: Store) -> None:
    def talk(unit: Unit) -> int:
        sessions.ensure(unit, MAIN, ID, 1)
        messages = [message.user(text, 1) for text in ("a blue boat", "two", "three")]
        return sessions.append(unit, ID, 0, "r", messages, 1)

    await store.write(talk)
    await store.write(lambda unit: compactions.add(unit, ID, 3, summary(3), 5, 77))


@pytest.mark.requirement("transcript-compaction-line")
@pytest.mark.requirement("compaction-persists-summary")
async def test_the_mirror_has_the_line_of_the_seeds(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "agents", tmp_path)
    async with open_store(tmp_path / "s.sqlite", on_commit=mirror.touched.add) as store:
        await compacted(store)
        await mirror.flush(store)
    folder = tmp_path / "agents" / "main" / "sessions"
    lines = [json.loads(line) for line in (folder / "s1.jsonl").read_text().splitlines()]
    assert lines[-1] == {
        "type": "compaction",
        "id": entry_id(4),
        "parentId": entry_id(3),
        "timestamp": "1970-01-01T00:00:00.005Z",
        "summary": "We spoke of boats.",
        "firstKeptEntryId": entry_id(3),
        "tokensBefore": 1234,
        "details": {"readFiles": [], "modifiedFiles": []},
    }
    assert lines[1]["message"]["content"][0]["text"] == "a blue boat"
    row = json.loads((folder / "sessions.json").read_text())[str(MAIN)]
    assert (row["compactionCount"], row["totalTokens"]) == (1, 77)


async def test_what_was_compacted_is_found_and_the_summary_is_not(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await compacted(store)
        results = await search(store, TranscriptQuery(MAIN, "boats"))
    assert [hit.excerpt.text for hit in results.hits] == ["a blue boat"]


async def test_the_session_knows_its_compactions_and_its_last_words(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        await compacted(store)
        await store.write(lambda unit: compactions.flushed(unit, ID, 9))
        session = await store.read(lambda reader: sessions.get(reader, ID))
        state = await store.read(lambda reader: compactions.state(reader, ID))
        last = await store.read(lambda reader: sessions.last_message(reader, ID))
        preview = await store.read(lambda reader: sessions.preview(reader, ID))
        unknown_session = await store.read(lambda reader: compactions.state(reader, "nobody"))
    assert session is not None
    assert (session.compactions, session.flushed, session.flushed_at) == (1, 1, 9)
    assert (state.count, state.flushed, state.seq, state.last) == (1, 1, 4, summary(3))
    assert (last, preview) == (3, "three")
    assert unknown_session == compactions.CompactionState()
