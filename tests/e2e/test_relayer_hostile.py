"""Odd requests to a running relayer: each gets a status of the contract, and none a 500."""

import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.relayer_process import Client, made, served

REQUESTS: Final = 300
VALID: Final[dict[str, Any]] = {
    "text": "I like tea",
    "namespace": "default",
    "idempotency_key": "k1",
    "items": [{"text": "a b c", "namespace": "x"}],
    "job_ids": ["a"],
    "encrypted_data": "AAEC",
    "vector": [0.1] * 1536,
    "query": "tea",
    "question": "what?",
    "ids": ["a"],
    "limit": 3,
    "scoring_weights": {"semantic": 1, "recency": 0.5, "recency_half_life_days": 3},
    "sort": "recent",
    "occurred_at": "2026-05-20T10:00:00Z",
}
"""Fields of all routes; each route ignores those of the others."""

ODD: Final[list[Any]] = [
    *("", "\0", "a\0b", "\u202e", "\U0001f600" * 70, "../../etc", "%00", "'; DROP TABLE job;--"),
    *(0, -1, 1e308, 10**30, -(10**30), True, None, [], {}, "x" * 300, [None], [[]], ["\0"] * 3),
    *([1e38] * 1536, [1e308] * 1536, [-1e-320] * 1536, [0] * 1536, ["a"] * 100),
    *("9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z"),
    *({"semantic": 1e400}, {"recency": 100, "recency_half_life_days": 1e-300}),
    *({"recency": 1, "recency_half_life_days": 1e-6}, {"recency": 1, "importance": 100}),
    *("I ran yesterday and last year and 999 years ago.", "\u2028 ?", "A" * 70_000),
]
POSTS: Final = (
    *("/api/remember", "/api/remember/bulk", "/api/remember/bulk/status", "/api/remember/manual"),
    *("/api/recall", "/api/recall/manual", "/api/analyze", "/api/ask", "/api/restore"),
    *("/api/forget", "/api/memories/forget", "/api/memories/read", "/api/stats", "/api/embed"),
)
CURSORS: Final = (
    "updated_after=%00",
    "updated_after=0001-01-01T00:00:00%2B23:59",
    "updated_after=9999-12-31T23:59:59-23:59",
    "updated_after=eyJ1cGRhdGVkX2F0IjoiOTk5OS0xMi0zMVQyMzo1OTo1OS45OTk5OTlaIn0",
    "limit=1&limit=2",
)


def odd_body(chance: random.Random) -> dict[str, Any]:
    body = {name: value for name, value in VALID.items() if chance.random() < 0.9}
    for _ in range(chance.choice([1, 1, 2])):
        body[chance.choice(list(VALID))] = chance.choice(ODD)
    return body


@pytest.mark.full("an embedding model")
async def test_nothing_that_a_client_sends_is_a_500(tmp_path: Path) -> None:
    account, chance = await made(tmp_path), random.Random(14)  # noqa: S311 - reproducible
    statuses: Counter[int] = Counter()
    async with served(tmp_path) as running, Client(running, account) as client:
        for _ in range(REQUESTS):
            path, body = chance.choice(POSTS), odd_body(chance)
            statuses[(await client.post(path, body)).status_code] += 1
        owner = account["owner"]
        for what in ("namespaces", "memories"):
            for query in CURSORS:
                answer = await client.send("GET", f"/v1/owners/{owner}/{what}?{query}")
                statuses[answer.status_code] += 1
        for job in ("%00", "a" * 5000, "..%2f", "a%20b"):
            statuses[(await client.send("GET", f"/api/remember/{job}")).status_code] += 1
        assert (await client.http.get("/health")).json()["status"] == "ok"
    assert set(statuses) <= {200, 202, 400, 401, 404, 409, 422}, statuses
