"""Passages as a job of OpenAI's Batch API, against a server that speaks it."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from skerry.infra.http import HttpClient
from skerry_recall.batch import MIN_TEXTS, BatchEmbedder, BatchSettings
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.embedding_apis import OpenAiWire
from skerry_recall.remote import Remote, RemoteEmbedder, Spent
from tests.unit.recall.embedding_server import (
    EmbeddingServer,
    RecordedRequest,
    Reply,
    embedding_server,
)
from tests.unit.recall.embedding_server import openai as at_once

TEXTS = ["x" * (number % 7) for number in range(MIN_TEXTS)]


class Jobs:
    """The server's side: one file, one job, which is done at the third look."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.looks = 0
        self.end = "completed"
        self.spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda lines: lines

    def __call__(self, request: RecordedRequest) -> Reply:
        match request.method, request.path:
            case "GET", "/v1/batches?limit=20":
                return Reply(body={"data": self.jobs})
            case "POST", "/v1/files":
                parts = request.raw.split(b"application/jsonl\r\n\r\n")[1].split(b"\r\n--")[0]
                self.lines = [json.loads(line) for line in parts.splitlines()]
                return Reply(body={"id": "file-1"})
            case "POST", "/v1/batches":
                assert request.json["input_file_id"] == "file-1"
                job = {"id": "b1", "status": "validating", "metadata": request.json["metadata"]}
                self.jobs.append(job)
                return Reply(body=job)
            case "GET", "/v1/batches/b1":
                self.looks += 1
                status = self.end if self.looks >= 3 else "in_progress"
                return Reply(body={"id": "b1", "status": status, "output_file_id": "out"})
            case "GET", "/v1/files/out/content":
                lines = self.spoil([_done(line) for line in self.lines])
                return Reply(body="\n".join(map(json.dumps, lines)).encode())
            case _:
                return at_once(request)


def _done(line: dict[str, Any]) -> dict[str, Any]:
    (text,) = line["body"]["input"]
    row = {"index": 0, "embedding": [len(text.strip()), 1.0]}
    body = {"data": [row], "usage": {"total_tokens": 2}}
    return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}}


class Bench:
    def __init__(self, server: EmbeddingServer, jobs: Jobs) -> None:
        self.server, self.jobs = server, jobs
        self.paused: list[float] = []
        self.spent: list[Spent] = []

    async def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def asked(self, path: str) -> int:
        return sum(request.path == path for request in self.server.asked)

    @asynccontextmanager
    async def embedder(
        self, settings: BatchSettings | None = None
    ) -> AsyncGenerator[BatchEmbedder]:
        async with HttpClient() as http:
            where = Remote(EmbeddingModel("openai", "m"), self.server.url, OpenAiWire(), "key")
            inner = RemoteEmbedder(http, where, on_spent=self.spent.append, sleep=self.pause)
            yield BatchEmbedder(inner, settings, sleep=self.pause)


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with embedding_server() as server:
        jobs = Jobs()
        server.handler = jobs
        yield Bench(server, jobs)


def _right(rows: "np.ndarray[Any, Any]") -> bool:
    lengths = np.array([[len(text), 1.0] for text in TEXTS])
    return np.allclose(rows, lengths / np.linalg.norm(lengths, axis=1, keepdims=True), atol=0.3)


@pytest.mark.requirement("embed-batch-openai")
async def test_many_passages_are_a_job_that_is_looked_after_until_it_is_done(bench: Bench) -> None:
    async with bench.embedder(BatchSettings(poll=7.0)) as embedder:
        rows = await embedder.embed(TEXTS, Kind.PASSAGE)
        assert embedder.bulk == 5000
    assert rows.shape == (MIN_TEXTS, 2)
    assert _right(rows)
    assert bench.paused == [7.0] * 3
    assert bench.asked("/v1/embeddings") == 0
    assert [(spent.tokens, spent.batch) for spent in bench.spent] == [(2 * MIN_TEXTS, True)]


async def test_a_question_and_a_few_passages_are_asked_at_once(bench: Bench) -> None:
    async with bench.embedder() as embedder:
        await embedder.embed(["a"], Kind.PASSAGE)
        await embedder.embed(["a"], Kind.QUERY)
    assert {request.path for request in bench.server.asked} == {"/v1/embeddings"}


async def test_the_job_of_an_earlier_life_is_found_and_not_paid_twice(bench: Bench) -> None:
    async with bench.embedder() as embedder:
        await embedder.embed(TEXTS, Kind.PASSAGE)
    bench.jobs.looks = 0
    async with bench.embedder() as embedder:
        assert (await embedder.embed(TEXTS, Kind.PASSAGE)).shape == (MIN_TEXTS, 2)
        await embedder.embed([*TEXTS, "more"], Kind.PASSAGE)
    assert bench.asked("/v1/files") == 2, "other texts are another job"


async def test_a_line_that_a_job_left_out_is_asked_at_once_and_the_others_are_kept(
    bench: Bench,
) -> None:
    bench.jobs.spoil = lambda lines: lines[:-2]
    async with bench.embedder() as embedder:
        assert _right(await embedder.embed(TEXTS, Kind.PASSAGE))
        assert embedder.bulk == 5000
    requests = [request for request in bench.server.asked if request.path == "/v1/embeddings"]
    assert [len(request.json["input"]) for request in requests] == [2]


async def test_a_vector_of_another_size_in_a_job_is_none_for_that_text(bench: Bench) -> None:
    def narrow(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines[7]["response"]["body"]["data"][0]["embedding"] = [1.0]
        return lines

    bench.jobs.spoil = narrow
    async with bench.embedder() as embedder:
        rows = await embedder.embed(TEXTS, Kind.PASSAGE)
    assert [position for position, row in enumerate(rows) if not row.any()] == [7]


@pytest.mark.parametrize("fault", ["failed", "expired", "empty", "nonsense"])
async def test_after_two_failures_there_are_no_more_jobs(bench: Bench, fault: str) -> None:
    match fault:
        case "empty":
            bench.jobs.spoil = lambda lines: lines[:0]
        case "nonsense":
            bench.jobs.spoil = lambda lines: [{"what": "is"}, *lines]
        case end:
            bench.jobs.end = end
    async with bench.embedder() as embedder:
        for _ in range(3):
            bench.jobs.looks, bench.jobs.jobs = 0, []
            assert (await embedder.embed(TEXTS, Kind.PASSAGE)).shape == (MIN_TEXTS, 2)
        assert embedder.bulk == 256
    assert bench.asked("/v1/files") == 2


async def test_a_job_that_takes_too_long_is_given_up(bench: Bench) -> None:
    async with bench.embedder(BatchSettings(timeout=0.0)) as embedder:
        assert (await embedder.embed(TEXTS, Kind.PASSAGE)).shape == (MIN_TEXTS, 2)
    assert bench.asked("/v1/embeddings") > 0
