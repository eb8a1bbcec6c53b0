"""The contract of `skerry_recall.embed.Embedder`, kept by every embedding model of ours."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.infra.http import HttpClient
from skerry.infra.process import starter
from skerry_recall.embed import Embedder, EmbeddingError, EmbeddingModel, Kind, has_direction
from skerry_recall.embedder_chain import Chain
from skerry_recall.embedding_apis import GeminiWire, OpenAiWire, VoyageWire, Wire
from skerry_recall.local import LocalEmbedder
from skerry_recall.remote import Remote, RemoteEmbedder
from tests.unit.recall.embedding_server import RecordedRequest, Reply, embedding_server

KEY: Final = "sk-0123456789abcdef"
TEXTS: Final = ("one", "three", "a longer text", "")
WORKER: Final = """
import sys
import numpy as np
from skerry_recall import worker
class Model:
    dims, text_tokens = 2, 100
    def embed(self, texts, kind):
        if texts == ["refuse"]: raise ValueError("not this one")
        return np.array([[len(text), 1.0] for text in texts], np.float32)
worker.load = lambda name: Model()
sys.exit(worker.main())
"""
Row = Callable[[], AbstractAsyncContextManager[Embedder]]


def answered(asked: RecordedRequest) -> Reply:
    """Answers each form with a vector of the text's length and 1; refuses the text `refuse`."""
    body = asked.json
    gemini = "requests" in body
    texts = (
        [request["content"]["parts"][0]["text"] for request in body["requests"]]
        if gemini
        else body["input"]
    )
    if "refuse" in texts:
        return Reply(400, {"error": {"message": f"not with {KEY}"}})
    rows = [[len(text.strip()), 1.0] for text in texts]
    if gemini:
        return Reply(body={"embeddings": [{"values": row} for row in rows]})
    data = [{"index": position, "embedding": row} for position, row in enumerate(rows)]
    return Reply(body={"data": data[::-1], "usage": {"total_tokens": len(rows)}})


def remote(wire: Wire) -> Row:
    @asynccontextmanager
    async def make() -> AsyncIterator[Embedder]:
        async with embedding_server() as server, HttpClient() as http:
            server.handler = answered
            where = Remote(EmbeddingModel("far", "m1"), server.url, wire, KEY)
            yield RemoteEmbedder(http, where, sleep=lambda _: anyio.lowlevel.checkpoint())

    return make


@asynccontextmanager
async def local() -> AsyncIterator[Embedder]:
    command, start = (sys.executable, "-c", WORKER), starter(os.environ)
    async with LocalEmbedder("tiny", start=start, command=command) as embedder:
        yield embedder


@asynccontextmanager
async def chained() -> AsyncIterator[Embedder]:
    async with remote(OpenAiWire())() as inner:
        face = Chain([inner]).embedder()
        assert face is not None
        yield face


ROWS: Final[dict[str, Row]] = {
    "openai": remote(OpenAiWire()),
    "voyage": remote(VoyageWire()),
    "gemini": remote(GeminiWire()),
    "local": local,
    "chain": chained,
}


async def embedded(
    embedder: Embedder, texts: Sequence[str], kind: Kind = Kind.PASSAGE
) -> NDArray[np.float32]:
    with anyio.fail_after(60):
        return await embedder.embed(texts, kind)


async def names_whose_vectors_they_are(row: Row) -> None:
    async with row() as embedder:
        assert embedder.model.provider
        assert embedder.model.model
        assert embedder.bulk >= 1


async def gives_a_row_of_length_one_for_each_text(row: Row) -> None:
    async with row() as embedder:
        rows = await embedded(embedder, TEXTS)
        assert rows.shape == (len(TEXTS), 2)
        assert rows.dtype == np.float32
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(len(TEXTS)))
        assert embedder.dims == 2


async def gives_them_in_the_order_of_the_texts(row: Row) -> None:
    async with row() as embedder:
        together = await embedded(embedder, TEXTS)
        alone = [(await embedded(embedder, [text]))[0] for text in TEXTS]
        assert together == pytest.approx(np.stack(alone))
        assert len({tuple(vector) for vector in alone[:3]}) == 3
        assert all(has_direction(vector) for vector in together)


async def takes_no_text_and_many(row: Row) -> None:
    async with row() as embedder:
        assert (await embedded(embedder, [])).shape[0] == 0
        many = await embedded(embedder, [f"text {number}" for number in range(300)])
        assert many.shape[0] == 300


async def takes_questions_too(row: Row) -> None:
    async with row() as embedder:
        rows = await embedded(embedder, ["where?"], Kind.QUERY)
        assert rows.shape == (1, 2)


async def refuses_with_an_error_that_has_no_key(row: Row) -> None:
    async with row() as embedder:
        with pytest.raises(EmbeddingError) as caught:
            await embedded(embedder, ["refuse"])
        assert KEY not in f"{caught.value}{caught.value.remedy}"


Clause = Callable[[Row], Awaitable[None]]
CONTRACT: Final[list[Clause]] = [
    names_whose_vectors_they_are,
    gives_a_row_of_length_one_for_each_text,
    gives_them_in_the_order_of_the_texts,
    takes_no_text_and_many,
    takes_questions_too,
    refuses_with_an_error_that_has_no_key,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_model_keeps_the_contract(row: Row, clause: Clause) -> None:
    await clause(row)


class Unordered(RemoteEmbedder):
    """Gives the rows in the order in which they came."""

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        return (await super().embed(texts, kind))[::-1].copy()


class Long(RemoteEmbedder):
    """Does not normalise."""

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        return await super().embed(texts, kind) * np.float32(2)


class Loud(RemoteEmbedder):
    """Says the key in its errors."""

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        try:
            return await super().embed(texts, kind)
        except EmbeddingError as error:
            raise EmbeddingError(f"{error} ({KEY})") from error


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Unordered, gives_them_in_the_order_of_the_texts),
        (Long, gives_a_row_of_length_one_for_each_text),
        (Loud, refuses_with_an_error_that_has_no_key),
    ],
)
async def test_a_model_with_a_defect_breaks_it(
    defect: type[RemoteEmbedder], clause: Clause
) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[Embedder]:
        async with embedding_server() as server, HttpClient() as http:
            server.handler = answered
            where = Remote(EmbeddingModel("far", "m1"), server.url, OpenAiWire(), KEY)
            yield defect(http, where)

    with pytest.raises(ExceptionGroup) as caught:  # of the server's tasks
        await clause(make)
    assert caught.value.subgroup(AssertionError)
