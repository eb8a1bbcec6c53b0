"""A search over transcripts reads no more the more was said."""

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
    around, best = search_candidates.neighbourhood, search_candidates.best

    def counted(*given: object) -> list[search_candidates.IndexedEntry]:
        found = around(*given)  # type: ignore[arg-type]
        read.update(one.rowid for one in found)
        return found

    def ranked(found: list[tuple[float, list[int]]], most: int) -> dict[int, float]:
        rows.extend(len(one) for _, one in found)
        return best(found, most)  # type: ignore[arg-type]

    monkeypatch.setattr(search_candidates, "neighbourhood", counted)
    monkeypatch.setattr(search_candidates, "best", ranked)
    monkeypatch.setattr(search_candidates, "MAX_MATCHES", 50)
    texts = [f"the boat number {number}" for number in range(said)]
    texts[3] = "the boat of the heron"
    async with open_store(tmp_path / DATABASE) as store:

        def work(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("one"), 1)
            given = [message.user(one, 1) for one in texts]
            sessions.append(unit, session_id, tail, "r", given, 1)

        await store.write(work)
        found = await search(store, TranscriptQuery(MAIN, "heron boat number", 2))
    assert found.hits[0].excerpt.text == texts[3]
    assert sorted(rows) == [1, 50, 50]
    # Eight for each hit, with two on either side.
    assert len(read) <= 2 * 8 * (2 * search_candidates.NEIGHBOURS + 1)
