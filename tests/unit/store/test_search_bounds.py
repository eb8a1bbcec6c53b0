"""A search over transcripts reads a bounded number of entries."""

from pathlib import Path

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.store import DATABASE, Unit, open_store, search_candidates, sessions
from skerry.store.transcript_search import TranscriptQuery, search

MAIN = SessionKey.main()


@pytest.mark.parametrize("said", [100, 800])
async def test_a_search_reads_no_more_the_more_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    read: set[int] = set()
    rows: list[int] = []
    neighbourhood, best = search_candidates.neighbourhood, search_candidates.best

    def counted(*arguments: object) -> list[search_candidates.IndexedEntry]:
        entries = neighbourhood(*arguments)  # type: ignore[arg-type]
        read.update(entry.rowid for entry in entries)
        return entries

    def ranked(weighted: list[tuple[float, list[int]]], limit: int) -> dict[int, float]:
        rows.extend(len(rowids) for _, rowids in weighted)
        return best(weighted, limit)  # type: ignore[arg-type]

    monkeypatch.setattr(search_candidates, "neighbourhood", counted)
    monkeypatch.setattr(search_candidates, "best", ranked)
    monkeypatch.setattr(search_candidates, "MAX_MATCHES", 50)
    texts = [f"the boat number {number}" for number in range(said)]
    texts[3] = "the boat of the heron"
    async with open_store(tmp_path / DATABASE) as store:

        def work(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("one"), 1)
            messages = [message.user(text, 1) for text in texts]
            sessions.append(unit, session_id, tail, "r", messages, 1)

        await store.write(work)
        results = await search(store, TranscriptQuery(MAIN, "heron boat number", 2))
    assert results.hits[0].excerpt.text == texts[3]
    assert sorted(rows) == [1, 50, 50]
    # Eight ranked entries for each hit, each with two neighbours before and after it.
    assert len(read) <= 2 * 8 * (2 * search_candidates.NEIGHBOURS + 1)
