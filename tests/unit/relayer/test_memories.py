"""The relayer's memory with a real key server and model: recall, dedupe, restore, forget."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from skerry_recall.embed import EmbeddingRefusedError, Kind
from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.errors import KeyReusedError, NoCertificateError
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.ports import After, Caller, Item, Query
from tests.support.embedding import Words
from tests.support.relayer_memory import delegate, ended, memory, stored

TUNA = "The cat is called Otto and eats tuna."
BERLIN = "Berlin was cold in January."


def question(text: str, limit: int = 5, namespace: str = "default") -> Query:
    return Query(namespace, limit, text)


@pytest.mark.requirement("relayer-vector-search")
async def test_a_text_whose_job_is_done_is_found_with_the_nearest_first(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        await stored(running.memories, caller, BERLIN)
        job = await stored(running.memories, caller, TUNA)
        assert job.status == "done"
        answer = await running.memories.recall(caller, question("What does my cat eat?"))
        assert [hit.text for hit in answer.hits] == [TUNA, BERLIN]
        assert answer.hits[0].blob_id == job.blob_id
        assert not (await running.memories.recall(caller, question("cat", namespace="work"))).hits


async def test_a_text_is_opened_with_a_certificate_only(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    without = Caller(caller.public_key, caller.account_id, caller.owner)
    async with memory(tmp_path) as running:
        await stored(running.memories, caller, TUNA)
        with pytest.raises(NoCertificateError):
            await running.memories.recall(without, question("cat"))
        with pytest.raises(NoCertificateError):
            await running.memories.restore(without, "default", 10)


async def test_a_known_text_adds_no_row_and_a_contradicting_one_does(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        first = await stored(running.memories, caller, "I live in Bergen.")
        again = await stored(running.memories, caller, "i live  in Bergen")
        other = await stored(running.memories, caller, "I live in Oslo.")
        assert again.blob_id == first.blob_id != other.blob_id
        assert (await running.memories.stats(caller, "default")).memory_count == 2


class Refusing(Words):
    """A model that refuses a text while the table of jobs is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rename(self, old: str, new: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if not any("otto" in text.lower() for text in texts):
            return await super().embed(texts, kind)
        self.rename("job", "hidden_job")
        raise EmbeddingRefusedError("no")


async def test_a_job_that_is_refused_while_the_database_is_down_is_marked_once_it_answers(
    tmp_path: Path,
) -> None:
    caller, model = delegate(tmp_path).caller(), Refusing(Folders(tmp_path).database / DATABASE)
    async with opened(MemoryOptions(tmp_path, embedder=model)) as running:
        (job,) = await running.memories.remember(caller, [Item(TUNA)])
        with anyio.fail_after(60):
            while await running.memories.ready():  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.01)
        model.rename("hidden_job", "job")
        refused = await ended(running.memories, caller, job.id)
        assert (refused.status, refused.error) == (
            "failed",
            "The embedding model refuses the text.",
        )
        assert await running.memories.ready()
        assert (await stored(running.memories, caller, BERLIN)).status == "done"


async def test_an_idempotency_key_gives_the_same_job_and_refuses_another_text(
    tmp_path: Path,
) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        (first,) = await running.memories.remember(caller, [Item(TUNA, idempotency_key="k")])
        await ended(running.memories, caller, first.id)
        (again,) = await running.memories.remember(caller, [Item(TUNA, idempotency_key="k")])
        assert (again.id, again.status) == (first.id, "done")
        with pytest.raises(KeyReusedError):
            await running.memories.remember(
                caller, [Item("Another."), Item(BERLIN, idempotency_key="k")]
            )
        assert (await running.memories.stats(caller, "default")).memory_count == 1


@pytest.mark.requirement("relayer-blobs-encrypted")
async def test_blobs_alone_give_back_texts_times_and_vectors_exactly(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        for text in (TUNA, BERLIN):
            await stored(running.memories, caller, text)
        manual = await running.memories.remember_manual(caller, b"sealed", [0.5] * 1536, "default")
        before = await running.memories.recall(caller, question("cat"))
    for file in Folders(tmp_path).database.iterdir():
        file.unlink()
    async with memory(tmp_path) as running:
        assert not (await running.memories.recall(caller, question("cat"))).hits
        restored = await running.memories.restore(caller, "default", 10)
        assert (restored.restored, restored.total, restored.failed) == (3, 3, 0)
        assert await running.memories.recall(caller, question("cat")) == before
        again = await running.memories.restore(caller, "default", 10)
        assert (again.restored, again.skipped) == (0, 3)
        assert await running.memories.blob(manual.blob_id) == b"sealed"


async def test_forgetting_deletes_rows_and_blobs(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        jobs = [await stored(running.memories, caller, text) for text in (TUNA, BERLIN)]
        assert await running.memories.forget(caller, [str(jobs[0].blob_id), "nowhere"]) == 1
        assert await running.memories.blob(str(jobs[0].blob_id)) is None
        answer = await running.memories.recall(caller, question("cat"))
        assert [hit.text for hit in answer.hits] == [BERLIN]
        assert await running.memories.forget_namespace(caller, "default") == 1
        assert not [path for path in Folders(tmp_path).blobs.rglob("*") if path.is_file()]
        assert (await running.memories.restore(caller, "default", 10)).total == 0


async def test_no_file_of_the_relayer_has_a_text(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        await running.memories.remember(caller, [Item(TUNA)])
        await stored(running.memories, caller, BERLIN)
        await running.memories.recall(caller, question("Who is Otto?"))
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        for plain in (b"Otto", b"tuna", b"January"):
            assert not [data for data in files if plain in data]


@pytest.mark.abuse(122)
async def test_lists_of_a_limited_key_have_its_namespaces_alone_on_every_page(
    tmp_path: Path,
) -> None:
    caller = delegate(tmp_path).caller()
    limited = replace(caller, namespaces=frozenset({"b", "d"}))
    async with memory(tmp_path) as running:
        memories = running.memories
        for name in ("a", "b", "c", "d"):
            (job,) = await memories.remember(caller, [Item(f"{TUNA} {name}", name)])
            await ended(memories, caller, job.id)
        first = await memories.namespaces(limited, None, 1)
        assert [row.name for row in first] == ["b"]
        after = After(first[0].updated_at, first[0].name)
        assert [row.name for row in await memories.namespaces(limited, after, 1)] == ["d"]
        listed = await memories.memories(limited, None, 2)
        assert [row.namespace for row in listed] == ["b", "d"]
        after = After(listed[0].updated_at, listed[0].id)
        assert [row.namespace for row in await memories.memories(limited, after, 2)] == ["d"]
        assert len(await memories.memories(caller, None, 9)) == 4
