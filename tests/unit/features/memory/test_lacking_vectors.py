"""A text without a vector is that text's alone: the others are found by their meaning."""

from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.passage_embedding import AGAIN_MS
from skerry.infra.http import HttpClient
from skerry.infra.sqlite import connect
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryAnswer, MemoryMode, MemoryQuestion
from skerry.testing.clock import FakeClock
from skerry_recall.embed import EmbeddingModel
from skerry_recall.embedder_chain import Chain
from skerry_recall.embedding_apis import OpenAiWire
from skerry_recall.remote import Remote, RemoteEmbedder
from tests.unit.recall.embedding_server import (
    EmbeddingServer,
    RecordedRequest,
    Reply,
    embedding_server,
)

NOTES = 120
BAD = "All about the tax."
MEANINGS = ("boat ship", "cat kitten", "tax levy")


def is_bad(text: str) -> bool:
    return BAD in text


def is_any(text: str) -> bool:
    return bool(text)


def is_none(text: str) -> bool:
    return not text


class VectorRig:
    """A memory of 120 notes whose model is behind a real socket, and the texts sent to it."""

    def __init__(self, home: Path, server: EmbeddingServer, http: Any) -> None:
        self.server = server
        self.size = 4
        self.refuses: Callable[[str], bool] = is_none
        self.zeroes: Callable[[str], bool] = is_none
        server.handler = self.answer
        self.given: list[str] = []
        self._http = http
        self.notes = home / "workspace" / "memory"
        self.notes.mkdir(parents=True)
        for number in range(NOTES - 3):
            (self.notes / f"{number:03}.md").write_text(f"Note {number} of the day.\n")
        for name in ("boat", "cat", "tax"):
            (self.notes / f"{name}.md").write_text(f"All about the {name}.\n")
        self.clock = FakeClock()
        self.home = home
        self.open()

    def open(self) -> None:
        """Begins as after a start."""
        where = Remote(EmbeddingModel("openai@here", "m"), self.server.url, OpenAiWire())
        chain = Chain([RemoteEmbedder(self._http, where, sleep=_at_once)])
        places = MemoryPaths(self.home / "workspace")
        index = Index(self.home / "main.sqlite", IndexSettings(places), self.clock)
        self.memory = BuiltinMemory(AgentId("main"), index, self.clock, embedder=chain.embedder)

    def answer(self, request: RecordedRequest) -> Reply:
        texts = request.json["input"]
        if any(self.refuses(text) for text in texts):
            return Reply(400, {"error": {"message": "the input is not allowed"}})
        self.given += texts
        rows = [{"index": at, "embedding": self._row(text)} for at, text in enumerate(texts)]
        return Reply(body={"data": rows})

    def _row(self, text: str) -> list[float]:
        if self.zeroes(text):
            return [0.0] * self.size
        row = [float(any(word in text for word in words.split())) for words in MEANINGS]
        return [*row, 0.1, *[0.0] * (self.size - 4)]

    async def find(self, text: str) -> MemoryAnswer:
        return await self.memory.search(MemoryQuestion(text))


async def _at_once(seconds: float) -> None:
    del seconds


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncGenerator[VectorRig]:
    async with embedding_server() as server, HttpClient() as http:
        made = VectorRig(tmp_path, server, http)
        yield made
        made.memory.close()


@pytest.mark.parametrize("how", ["refuses", "zeroes"])
async def test_one_text_without_a_vector_among_120_costs_no_other_its_meaning(
    kept: VectorRig, how: str
) -> None:
    setattr(kept, how, is_bad)
    await kept.memory.sync()
    answer = await kept.find("kitten")
    assert (answer.mode, answer.hits[0].path) == (MemoryMode.HYBRID, "memory/cat.md")
    assert answer.fallback is not None
    text = {"refuses": "the input is not allowed", "zeroes": "no usable vector"}[how]
    assert "1 passage has no vector" in answer.fallback.reason
    assert text in answer.fallback.reason
    status = await kept.memory.status()
    assert (status.mode, status.vectors, status.chunks) == (MemoryMode.HYBRID, 119, NOTES)
    assert status.fallback == answer.fallback
    assert status.lacking == (("memory", 1, 1),)
    by_words = await kept.find("all about the tax")
    assert by_words.hits[0].path == "memory/tax.md", "its words are not hidden"


async def test_a_text_that_was_refused_is_asked_for_again_a_day_later_and_not_before(
    kept: VectorRig,
) -> None:
    kept.refuses = is_bad
    await kept.memory.sync()
    count = len(kept.server.asked)
    await kept.memory.sync()
    assert len(kept.server.asked) == count
    kept.refuses = is_none
    kept.clock.advance(AGAIN_MS + 1)
    assert (await kept.memory.sync()).embedded == 1
    answer = await kept.find("levy")
    assert (answer.fallback, answer.hits[0].path) == (None, "memory/tax.md")


async def test_a_refused_text_is_asked_for_again_when_the_index_is_rebuilt(
    kept: VectorRig,
) -> None:
    kept.refuses = is_bad
    await kept.memory.sync()
    kept.refuses = is_none
    assert (await kept.memory.sync(force=True)).embedded == 1
    assert (await kept.memory.status()).vectors == NOTES


async def test_a_model_that_refuses_everything_is_no_fault_of_the_texts(kept: VectorRig) -> None:
    kept.refuses = is_any
    await kept.memory.sync()
    status = await kept.memory.status()
    assert status.fallback is not None
    assert "400" in status.fallback.reason
    assert len(kept.server.asked) == 2 + 1, "one bulk of two requests, then an easy text"
    kept.refuses = is_none
    await kept.memory.sync()
    assert (await kept.memory.status()).vectors == NOTES


async def test_a_young_memory_is_found_by_the_meaning_that_it_has(kept: VectorRig) -> None:
    await kept.memory.sync()
    for number in range(80):
        (kept.notes / f"new-{number}.md").write_text(f"A new note {number}.\n")
    answer = await kept.find("kitten")
    assert (answer.mode, answer.hits[0].path) == (MemoryMode.HYBRID, "memory/cat.md")
    assert answer.fallback is None
    assert "80 of 200 passages have no vector yet" in answer.notes[0]


@pytest.mark.parametrize("restart", [False, True])
async def test_a_server_with_another_model_behind_its_name_is_told_and_healed(
    kept: VectorRig, *, restart: bool
) -> None:
    await kept.memory.sync()
    kept.size = 6
    if restart:
        kept.memory.close()
        kept.open()
    answer = await kept.find("cat")
    assert (answer.mode, answer.hits[0].path) == (MemoryMode.TEXT, "memory/cat.md")
    assert answer.fallback is not None
    assert "vectors of 6 numbers, the index has 4" in answer.fallback.reason
    assert kept.memory.resized
    before = len(kept.given)
    await kept.memory.sync()
    assert len(kept.given) - before == NOTES
    healed = await kept.find("kitten")
    assert (healed.mode, healed.fallback) == (MemoryMode.HYBRID, None)
    assert healed.hits[0].path == "memory/cat.md"
    kept.size = 4
    before = len(kept.given)
    await kept.find("levy")
    await kept.memory.sync()
    back = await kept.find("levy")
    assert (back.mode, back.hits[0].path) == (MemoryMode.HYBRID, "memory/tax.md")
    assert len(kept.given) - before <= 2, "the cache had them all; questions alone were asked"


async def test_new_notes_tell_that_the_size_changed_too(kept: VectorRig) -> None:
    await kept.memory.sync()
    kept.size = 6
    (kept.notes / "late.md").write_text("A kitten came late.\n")
    await kept.memory.sync()
    answer = await kept.find("kitten")
    assert (answer.mode, answer.fallback) == (MemoryMode.HYBRID, None)
    assert (await kept.memory.status()).vectors == NOTES + 1


async def test_what_a_half_failed_bulk_gave_is_not_paid_again(kept: VectorRig) -> None:
    fails = len(kept.server.asked) + 2

    def breaks(request: RecordedRequest) -> Reply:
        if len(kept.server.asked) > fails:
            return Reply(500, {"error": "away"})
        return kept.answer(request)

    long = "word " * 180
    for number in range(NOTES - 3):
        (kept.notes / f"{number:03}.md").write_text(f"Note {number}. {long}\n")
    kept.server.handler = breaks
    await kept.memory.sync()
    paid = len(kept.given)
    assert (await kept.memory.status()).vectors == paid > 0
    kept.server.handler = kept.answer
    kept.memory.close()
    kept.open()  # the rest of a model that failed is not what is tested
    await kept.memory.sync()
    assert (await kept.memory.status()).vectors == NOTES
    assert len(kept.given) == len(set(kept.given)) == NOTES


async def test_an_index_that_zeros_and_two_sizes_spoiled_is_healed_by_the_next_version(
    kept: VectorRig,
) -> None:
    await kept.memory.sync()
    kept.memory.close()
    with closing(connect(kept.home / "main.sqlite")) as db:
        db.executescript(
            "DROP TRIGGER chunk_added; DROP TRIGGER chunk_removed; DROP TRIGGER chunk_embedded;"
            "DROP TRIGGER file_added; DROP TRIGGER file_removed; DROP TRIGGER file_changed;"
            " DROP TABLE totals; DROP INDEX files_of_source; DROP INDEX files_failed;"
            " DROP INDEX files_counted; DROP TABLE refusals; DROP INDEX chunks_lacking;"
            " DROP INDEX chunks_hashed; ALTER TABLE files DROP COLUMN block;"
            " ALTER TABLE files DROP COLUMN block_place; ALTER TABLE files DROP COLUMN block_line;"
            " DELETE FROM meta WHERE key IN ('vector size', 'state', 'scanned');"
            " UPDATE embedding_cache SET model = 'm';"
            " UPDATE chunks_vec SET embedding = zeroblob(16) WHERE chunk_id = 1;"
            " UPDATE chunks_vec SET embedding = x'0000803F' WHERE chunk_id = 2;"
            " UPDATE embedding_cache SET embedding = zeroblob(16) WHERE content_hash ="
            " (SELECT hash FROM chunks WHERE id = 1); PRAGMA user_version = 1"
        )
    kept.open()
    before = len(kept.given)
    answer = await kept.find("kitten")
    assert (answer.mode, answer.hits[0].path) == (MemoryMode.HYBRID, "memory/cat.md")
    await kept.memory.sync()
    assert len(kept.given) - before == 2, "the question, and the text of the zeros"
    assert (await kept.memory.status()).vectors == NOTES


async def test_a_question_is_embedded_only_where_a_passage_has_a_vector(kept: VectorRig) -> None:
    kept.refuses = is_any
    await kept.memory.sync()
    count = len(kept.server.asked)
    answer = await kept.find("all about the boat")
    assert len(kept.server.asked) == count
    assert (answer.mode, answer.hits[0].path) == (MemoryMode.TEXT, "memory/boat.md")
    assert answer.fallback is not None
    kept.refuses = is_none
    await kept.memory.sync(force=True)
    assert (await kept.find("ship")).mode is MemoryMode.HYBRID
    assert kept.given[-1] == "ship"
