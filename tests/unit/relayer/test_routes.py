"""The routes of the relayer: responses and errors of the contract of the official clients."""

import base64
from pathlib import Path
from typing import Any

import pytest

from skerry_relayer.errors import DownError
from skerry_relayer.ports import WIDTH
from tests.support.memwal import Delegate
from tests.support.relayer import Lab


@pytest.mark.requirement("memwal-health-endpoint")
async def test_open_routes_tell_what_clients_check(lab: Lab) -> None:
    health = (await lab.http.get("/health")).json()
    assert (health["status"], health["apiVersion"], health["write_ready"]) == ("ok", "1.0.0", True)
    assert health["extractor"] == "rules"
    version = (await lab.http.get("/version")).json()
    assert version["minSupportedSdk"] == {"typescript": "0.0.4", "python": "0.1.0", "mcp": "0.0.1"}
    config = (await lab.http.get("/config")).json()
    assert config["network"] == "localnet"
    assert config["suiRpcUrl"] == "http://127.0.0.1:8000/sui"


async def test_a_host_header_that_is_no_host_is_not_repeated(lab: Lab) -> None:
    answer = await lab.http.get("/config", headers={"host": "a b/c"})
    assert answer.json()["suiRpcUrl"] == "http://127.0.0.1:8000/sui"


async def test_the_chain_knows_the_package_alone(lab: Lab) -> None:
    async def call(method: str, *params: object) -> dict[str, object]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: dict[str, object] = (await lab.http.post("/sui", json=body)).json()
        return answer

    package = lab.keys.package_id
    single = await call("sui_getObject", package, {})
    assert single["result"] == {
        "data": {
            "objectId": package,
            "version": "1",
            "digest": "1" * 32,
            "type": "package",
            "owner": "Immutable",
        }
    }
    assert (await call("sui_multiGetObjects", [package], {}))["result"] == [single["result"]]
    assert "notExists" in str(await call("sui_getObject", "0x1"))
    assert "-32601" in str(await call("sui_dryRun"))
    assert "-32602" in str(await call("sui_getObject", 5))
    assert (await lab.http.post("/sui", content=b"[[")).json()["error"]["code"] == -32700
    grpc = await lab.http.post("/sui/sui.rpc.v2.LedgerService/BatchGetObjects", content=b"")
    assert grpc.status_code == 404


async def test_a_text_is_accepted_and_found_again(lab: Lab) -> None:
    accepted = await lab.post("/api/remember", {"text": "I am allergic to peanuts"})
    assert accepted.status_code == 202
    job = accepted.json()
    assert (job["status"], job["id"]) == ("running", job["job_id"])
    state = (await lab.get(f"/api/remember/{job['job_id']}")).json()
    assert (state["status"], state["owner"], state["namespace"]) == ("done", lab.owner, "default")
    payload = (await lab.post("/api/recall", {"query": "allergic to", "limit": 5})).json()
    assert [row["text"] for row in payload["results"]] == ["I am allergic to peanuts"]
    assert payload["total"] == 1
    assert "score" not in payload["results"][0]
    assert payload["results"][0]["created_at"].endswith("Z")


async def test_jobs_of_others_do_not_exist(lab: Lab) -> None:
    job = (await lab.post("/api/remember", {"text": "mine"})).json()["job_id"]
    other = Delegate(account_id="0x" + "34" * 32, seed=bytes(32))
    lab.keys.add(other)
    answer = await lab.get(f"/api/remember/{job}", by=other)
    assert (answer.status_code, answer.json()) == (404, {"error": f"Job {job} not found"})
    body = {"job_ids": [job, "nonsense", job]}
    answer = await lab.post("/api/remember/bulk/status", body, by=other)
    assert [row["status"] for row in answer.json()["results"]] == ["not_found"] * 3
    answer = await lab.post("/api/remember/bulk/status", body)
    assert [row["status"] for row in answer.json()["results"]] == ["done", "not_found", "done"]


async def test_bulk_keeps_the_order_and_is_not_stored_twice(lab: Lab) -> None:
    body = {
        "items": [{"text": "a fact", "namespace": "x"}, {"text": "b fact"}],
        "idempotency_key": "k",
    }
    first = await lab.post("/api/remember/bulk", body)
    assert (first.status_code, first.json()["total"]) == (202, 2)
    again = await lab.post("/api/remember/bulk", body)
    assert again.json()["job_ids"] == first.json()["job_ids"]
    assert [row.text for row in lab.memory.rows] == ["a fact", "b fact"]


async def test_a_key_for_another_text_is_a_conflict(lab: Lab) -> None:
    await lab.post("/api/remember", {"text": "a", "idempotency_key": "k"})
    answer = await lab.post("/api/remember", {"text": "b", "idempotency_key": "k"})
    assert answer.status_code == 409
    assert "different content" in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/api/recall", "/api/ask", "/api/restore"], ids=["recall", "ask", "restore"]
)
async def test_no_text_is_opened_without_a_certificate(lab: Lab, path: str) -> None:
    body = {"query": "a", "question": "a", "namespace": "default"}
    answer = await lab.post(path, body, session=False)
    assert (answer.status_code, answer.content) == (401, b"")
    stale = lab.me.certificate(lab.clock() - 301)
    answer = await lab.post(path, body, headers={"x-seal-session": stale})
    assert (answer.status_code, answer.content) == (401, b"")
    assert (await lab.post(path, body)).status_code == 200


async def test_vectors_of_clients_are_stored_and_found(lab: Lab) -> None:
    vector = [1.0] + [0.0] * (WIDTH - 1)
    sealed = base64.b64encode(b"sealed").decode()
    stored = await lab.post(
        "/api/remember/manual", {"encrypted_data": sealed, "vector": vector}, session=False
    )
    assert stored.status_code == 200
    assert stored.json()["owner"] == lab.owner
    response = await lab.post("/api/recall/manual", {"vector": vector, "limit": 3}, session=False)
    (row,) = response.json()["results"]
    assert row["blob_id"] == stored.json()["blob_id"]
    assert set(row) == {"blob_id", "distance", "created_at", "importance"}
    blob = await lab.http.get(f"/v1/blobs/{row['blob_id']}")
    assert blob.content == b"sealed"
    assert (await lab.http.get("/v1/blobs/" + "A" * 43)).status_code == 404


@pytest.mark.requirement("relayer-analyze-facts")
async def test_analyze_dates_facts_and_knows_those_it_has(lab: Lab) -> None:
    body = {
        "text": "I met Tom last Friday in Rome. Which hotel?\nI prefer dark mode in editors.",
        "occurred_at": "2026-05-20T10:00:00.000Z",
    }
    first = await lab.post("/api/analyze", body)
    assert first.status_code == 202
    facts = first.json()["facts"]
    assert [fact["text"] for fact in facts] == [
        "I met Tom on Friday, 15 May 2026 (2026-05-15) in Rome.",
        "I prefer dark mode in editors.",
    ]
    assert [fact["job_id"] for fact in facts] == first.json()["job_ids"]
    again = (await lab.post("/api/analyze", body)).json()
    assert (again["facts"], again["job_ids"], again["fact_count"]) == ([], [], 0)
    other = await lab.post("/api/analyze", {"text": "I prefer light mode in editors."})
    assert other.json()["fact_count"] == 1
    assert len(lab.memory.rows) == 3


async def test_ask_answers_from_memories(lab: Lab) -> None:
    empty = (await lab.post("/api/ask", {"question": "what?"})).json()
    assert empty == {
        "answer": "No memory answers this question.",
        "memories_used": 0,
        "memories": [],
    }
    await lab.post("/api/remember", {"text": "I drink tea"})
    answer = (await lab.post("/api/ask", {"question": "what do I drink?"})).json()
    assert answer["memories_used"] == 1
    assert "I drink tea" in answer["answer"]


async def test_forgetting_deletes_single_memories_and_namespaces(lab: Lab) -> None:
    for text in ("a", "b", "c"):
        await lab.post("/api/remember", {"text": text, "namespace": "n"})
    first, second = lab.memory.rows[:2]
    answer = await lab.post("/api/memories/forget", {"ids": [first.id, second.blob_id, "x"]})
    assert answer.json() == {"deleted": 2, "owner": lab.owner}
    stats = (await lab.post("/api/stats", {"namespace": "n"})).json()
    assert (stats["memory_count"], stats["storage_bytes"]) == (1, 1)
    answer = await lab.post("/api/forget", {"namespace": "n"})
    assert answer.json() == {"deleted": 1, "namespace": "n", "owner": lab.owner}


async def test_memories_are_opened_by_id_with_a_certificate_alone(lab: Lab) -> None:
    for text in ("a", "b"):
        await lab.post("/api/remember", {"text": text, "namespace": text})
    ids = [row.id for row in lab.memory.rows]
    body = {"ids": [ids[1], "x", ids[0]]}
    assert (await lab.post("/api/memories/read", body, session=False)).status_code == 401
    read = (await lab.post("/api/memories/read", body)).json()
    assert [row["text"] for row in read["memories"]] == ["b", "a"]
    scoped = Delegate(seed=bytes(32))
    lab.keys.add(scoped, frozenset({"a"}))
    read = (await lab.post("/api/memories/read", body, by=scoped)).json()
    assert [row["text"] for row in read["memories"]] == ["a"]
    for what, field in (("namespaces", "name"), ("memories", "namespace_id")):
        listed = (await lab.get(f"/v1/owners/{lab.owner}/{what}", by=scoped)).json()
        assert [row[field] for row in listed[what]] == ["a"]
    assert (await lab.get("/v1/me", by=scoped)).json()["namespaces"] == ["a"]


async def test_the_page_consists_of_its_own_files(lab: Lab) -> None:
    page = await lab.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("style.css", "main.js", "api.js", "crypto.js"):
        assert f"/page/{name}" in page.text or name in {"api.js", "crypto.js"}
        assert (await lab.http.get(f"/page/{name}")).status_code == 200
    for name in ("%2e%2e%2fapp.py", "app.py", "index.html%00"):
        assert (await lab.http.get(f"/page/{name}")).status_code == 404


async def test_embed_gives_as_many_numbers_as_the_wire_has(lab: Lab) -> None:
    assert len((await lab.post("/api/embed", {"text": "a"})).json()["vector"]) == WIDTH


async def test_restore_reports_its_counts(lab: Lab) -> None:
    answer = (await lab.post("/api/restore", {"namespace": "n", "limit": 5})).json()
    assert answer == {
        "restored": 0,
        "skipped": 0,
        "total": 0,
        "failed": 0,
        "truncated": False,
        "namespace": "n",
        "owner": lab.owner,
    }


async def test_namespaces_are_walked_page_by_page(lab: Lab) -> None:
    for name in ("c", "a", "b"):
        lab.clock.now += 1
        await lab.post("/api/remember", {"text": name, "namespace": name})
    page: dict[str, Any] = {}
    path, names, cursor = f"/v1/owners/{lab.owner}/namespaces?limit=1", [], ""
    for _ in range(3):
        page = (await lab.get(path + cursor, session=False)).json()
        names += [row["name"] for row in page["namespaces"]]
        cursor = f"&updated_after={page['next_cursor']}"
    assert (names, page["has_more"], page["snapshot_version"]) == (["c", "a", "b"], False, 2)
    later = (await lab.get(path + cursor)).json()
    assert (later["namespaces"], later["has_more"]) == ([], False)
    assert f"&updated_after={later['next_cursor']}" == cursor
    lab.clock.now += 1
    await lab.post("/api/remember", {"text": "d", "namespace": "a"})
    assert [row["name"] for row in (await lab.get(path + cursor)).json()["namespaces"]] == ["a"]


async def test_memories_are_listed_without_text(lab: Lab) -> None:
    for text in ("secret a", "secret b", "secret c"):
        lab.clock.now += 1
        await lab.post("/api/remember", {"text": text})
    path = f"/v1/owners/{lab.owner}/memories?limit=2"
    first = await lab.get(path)
    assert "secret" not in first.text
    rest = (await lab.get(f"{path}&updated_after={first.json()['next_cursor']}")).json()
    ids = [row["memory_id"] for row in first.json()["memories"] + rest["memories"]]
    assert ids == [row.id for row in lab.memory.rows]


async def test_keys_are_listed_and_lists_of_others_are_forbidden(lab: Lab) -> None:
    (agent,) = (await lab.get(f"/v1/owners/{lab.owner}/agents")).json()["agents"]
    assert (agent["label"], agent["public_key"]) == ("test", lab.me.public.hex())
    for what in ("namespaces", "memories", "agents"):
        answer = await lab.get(f"/v1/owners/0x{'0' * 64}/{what}")
        assert (answer.status_code, answer.json()) == (403, {"error": "owner mismatch"})


async def test_a_key_of_one_namespace_reaches_no_other(lab: Lab) -> None:
    scoped = Delegate(seed=bytes(32))
    lab.keys.add(scoped, frozenset({"work"}))
    assert (
        await lab.post("/api/remember", {"text": "a", "namespace": "work"}, by=scoped)
    ).status_code == 202
    for path, body in (
        ("/api/remember", {"text": "a"}),
        ("/api/remember/bulk", {"items": [{"text": "a"}]}),
        ("/api/recall", {"query": "a"}),
        ("/api/ask", {"question": "a"}),
        ("/api/analyze", {"text": "a"}),
        ("/api/forget", {}),
        ("/api/stats", {}),
        ("/api/restore", {"namespace": "default"}),
        ("/api/recall/manual", {"vector": [1.0] * WIDTH}),
        ("/api/remember/manual", {"vector": [1.0] * WIDTH, "encrypted_data": "AAEC"}),
    ):
        assert (await lab.post(path, body, by=scoped)).status_code == 403, path


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/remember", b"{", 400),
        ("/api/remember", b"\xff", 400),
        ("/api/remember", b'{"text":"\\ud800"}', 400),
        ("/api/remember", b'{"text":"a","x":' + b"[" * 100_000, 400),
        ("/api/remember", b'{"text":"a","x":' + b"[" * 9000 + b"]" * 9000 + b"}", 400),
        ("/api/remember", {"text": 5}, 422),
        ("/api/remember", {}, 422),
        ("/api/remember", [], 422),
        ("/api/remember", {"text": "a", "namespace": None}, 422),
        ("/api/remember", {"text": " \n"}, 400),
        ("/api/remember", {"text": "a" * 1_048_577}, 400),
        ("/api/remember", {"text": "a", "namespace": ""}, 400),
        ("/api/remember", {"text": "a", "namespace": "é" * 128}, 400),
        ("/api/remember", {"text": "a", "idempotency_key": ""}, 400),
        ("/api/remember", {"text": "a", "idempotency_key": "k" * 256}, 400),
        ("/api/remember/bulk", {"items": []}, 400),
        ("/api/remember/bulk", {"items": [{"text": "a"}] * 21}, 400),
        ("/api/remember/bulk/status", {"job_ids": ["a"] * 21}, 400),
        ("/api/remember/manual", {"blob_id": "B", "vector": [0.1, 0.2]}, 422),
        ("/api/remember/manual", {"encrypted_data": "AAEC", "vector": [0.1, 0.2]}, 400),
        ("/api/remember/manual", {"encrypted_data": "*", "vector": [0.1] * WIDTH}, 400),
        ("/api/remember/manual", {"encrypted_data": "", "vector": [0.1] * WIDTH}, 400),
        ("/api/recall/manual", {"vector": [0.0] * WIDTH}, 400),
        ("/api/recall/manual", b'{"vector":[1e999' + b",0" * (WIDTH - 1) + b"]}", 422),
        ("/api/recall", {"query": ""}, 400),
        ("/api/recall", {"query": "a", "limit": 0}, 400),
        ("/api/recall", {"query": "a", "limit": 10**30}, 200),
        ("/api/recall", {"query": "a", "sort": "oldest"}, 422),
        ("/api/recall", {"query": "a", "scoring_weights": {"recency": -1}}, 400),
        ("/api/recall", {"query": "a", "scoring_weights": {"importance": 101}}, 400),
        (
            "/api/recall",
            {"query": "a", "scoring_weights": {"recency": 1, "recency_half_life_days": 0}},
            400,
        ),
        ("/api/analyze", {"text": "a" * 65_537}, 400),
        ("/api/analyze", {"text": "a", "occurred_at": "yesterday"}, 400),
        ("/api/analyze", {"text": "a", "occurred_at": "2026-05-20T10:00:00"}, 400),
        ("/api/embed", {"text": "a" * 65_537}, 400),
        ("/api/memories/forget", {"ids": []}, 400),
        ("/api/memories/forget", {"ids": ["a"] * 101}, 400),
        ("/api/restore", {}, 422),
    ],
    ids=lambda value: None if isinstance(value, str | int) else "body",
)
async def test_bad_bodies_get_the_statuses_of_the_contract(
    lab: Lab, path: str, body: object, status: int
) -> None:
    assert (await lab.post(path, body)).status_code == status


async def test_a_body_that_is_not_announced_as_json_is_refused(lab: Lab) -> None:
    answer = await lab.post("/api/remember", {"text": "a"}, headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.headers["content-type"][:10]) == (415, "text/plain")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "updated_after=%00",
        "updated_after=e30",
        "limit=9999999999",
    ],
)
async def test_bad_pages_are_refused(lab: Lab, query: str) -> None:
    answer = await lab.get(f"/v1/owners/{lab.owner}/namespaces?{query}")
    assert answer.status_code == 400


async def test_a_part_that_is_down_is_a_503_and_a_bug_shows_no_text(lab: Lab) -> None:
    lab.memory.fault = DownError("The embedder does not answer.")
    answer = await lab.post("/api/recall", {"query": "a"})
    assert (answer.status_code, answer.json()["error"]) == (503, "The embedder does not answer.")
    lab.memory.fault = ValueError("secret text")
    answer = await lab.post("/api/recall", {"query": "a"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "traceId" in answer.text


async def test_unknown_paths_and_methods_have_empty_answers(lab: Lab) -> None:
    for method, path, status in (("GET", "/api/nothing", 404), ("GET", "/api/recall", 405)):
        answer = await lab.http.request(method, path)
        assert (answer.status_code, answer.content) == (status, b"")


async def test_metrics_count_answers(lab: Lab) -> None:
    await lab.post("/api/stats", {})
    text = (await lab.http.get("/metrics")).text
    assert 'skerry_relayer_requests_total{route="/api/stats",status="200"} 1' in text


async def test_pages_of_other_sites_are_answered_only_where_the_operator_names_them(
    lab: Lab, tmp_path: Path
) -> None:
    params = {"origin": "https://app.test", "access-control-request-method": "POST"}
    closed = await lab.http.options("/api/recall", headers=params)
    assert "access-control-allow-origin" not in closed.headers
    opened = Lab(tmp_path, origins=("https://app.test",))
    async with opened.http:
        preflight = await opened.http.options("/api/recall", headers=params)
        assert preflight.headers["access-control-allow-origin"] == "https://app.test"
        foreign = {**params, "origin": "https://evil.test"}
        refused = await opened.http.options("/api/recall", headers=foreign)
        assert "access-control-allow-origin" not in refused.headers
        answer = await opened.post("/api/stats", {}, headers={"origin": "https://app.test"})
        assert "x-auth-error" in answer.headers["access-control-expose-headers"].lower()
    opened.relayer.nonces.close()
