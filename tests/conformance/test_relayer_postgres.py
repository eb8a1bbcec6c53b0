"""The relayer's memory on PostgreSQL with pgvector: whole, on two nodes, with its index."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import anyio
import numpy as np
import psycopg
import pytest

from bench.memwal_tenants import centres, fill
from skerry_recall.embed import normalised
from skerry_relayer import postgres
from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.folders import Folders
from skerry_relayer.keys.server import SOCKET
from skerry_relayer.ports import Item, Query
from skerry_relayer.postgres import WORDS, NearestInPostgres, PostgresDatabase
from skerry_relayer.schema import steps
from skerry_relayer.shared_nonces import SharedNonces
from skerry_relayer.vector_search import VectorScope
from tests.support.embedding import Words
from tests.support.mocks import program
from tests.support.relayer_memory import delegate, ended, run_killed, stored
from tests.support.relayer_program import TEXTS

pytestmark = pytest.mark.full("PostgreSQL")
SERVE = Path(__file__).parent / "postgres" / "serve.py"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    python = program("SKERRY_POSTGRES_PYTHON", ".venv-postgres/bin/python")
    with subprocess.Popen(
        [python, str(SERVE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


@pytest.fixture
def url(server: str) -> str:
    """Returns the address of an empty database."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


async def test_the_whole_way_is_the_same_on_postgresql(url: str, tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with opened(MemoryOptions(tmp_path, database=url, embedder=Words())) as running:
        memories = running.memories
        first = await stored(memories, caller, "Otto eats tuna.")
        again = await stored(memories, caller, "otto eats  tuna")
        await stored(memories, caller, "Berlin was cold.")
        assert (first.status, again.blob_id) == ("done", first.blob_id)
        answer = await memories.recall(caller, Query("default", 5, "Who eats tuna"))
        assert [hit.text for hit in answer.hits] == ["Otto eats tuna.", "Berlin was cold."]
        manual = await memories.remember_manual(caller, b"sealed", [0.5] * 1536, "default")
        near = await memories.recall_manual(caller, Query("default", 1, vector=(0.5,) * 1536))
        assert [hit.id for hit in near.hits] == [manual.id]
        assert [row.memory_count for row in await memories.namespaces(caller, None, 10)] == [3]
        assert len(await memories.memories(caller, None, 10)) == 3
        assert await memories.forget(caller, [manual.id]) == 1
        (kept,) = await memories.remember(caller, [Item("Key.", idempotency_key="k")])
        (same,) = await memories.remember(caller, [Item("Key.", idempotency_key="k")])
        assert kept.id == same.id
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DELETE FROM memory")
            connection.execute("DELETE FROM tally")
        await ended(memories, caller, kept.id)
        restored = await memories.restore(caller, "default", 10)
        assert restored.failed == 0
        assert restored.restored >= 2


async def test_two_nodes_share_the_work_and_one_killed_loses_and_doubles_nothing(
    url: str, tmp_path: Path
) -> None:
    caller = delegate(tmp_path).caller()
    socket = Folders(tmp_path).keys / SOCKET
    run_killed(tmp_path, "remember", "job.written", url)
    with psycopg.connect(url, autocommit=True) as connection:  # the hold of the dead node ends
        connection.execute("UPDATE job SET held_until = 0")
    first = MemoryOptions(tmp_path, database=url, embedder=Words())
    second = MemoryOptions(tmp_path, database=url, embedder=Words(), key_server=socket)
    async with opened(first) as running_memory, opened(second) as other:
        with anyio.fail_after(60):
            while True:
                if (await other.memories.stats(caller, "default")).memory_count >= len(TEXTS):
                    break
                await anyio.sleep(0.01)
        same = [Item("Both nodes get this.", idempotency_key="both")]
        (job,) = await running_memory.memories.remember(caller, same)
        (there,) = await other.memories.remember(caller, same)
        assert job.id == there.id
        assert (await ended(other.memories, caller, job.id)).status == "done"
        hits = (await other.memories.recall(caller, Query("default", 50, "ferry cat"))).hits
        assert sorted(hit.text for hit in hits) == sorted([*TEXTS, same[0].text])


async def test_the_index_comes_back_neither_short_nor_with_others_rows(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand tenants a full scan says which rows are the nearest, for each size of them."""
    async with PostgresDatabase(url, steps(WORDS)) as database:
        tenants = dict(fill(url, share=0.02))
        assert (len(tenants), max(tenants.values()), min(tenants.values())) == (1000, 2000, 10)
        near = NearestInPostgres(database, exact_rows=0)
        exact = NearestInPostgres(database)
        with monkeypatch.context() as patched:  # the index takes longer than a request may
            patched.setattr(postgres, "STATEMENT_SECONDS", 0.1)
            async with PostgresDatabase(url, steps(WORDS)) as other:
                await NearestInPostgres(other).index_space("s", 384)
        # A plan for any owner, as servers make after five calls, does without the index.
        mode = await database.read(lambda unit: unit.first_row("SHOW plan_cache_mode"))
        assert mode == ("force_custom_plan",)
        rng, topics = np.random.default_rng(3), centres(np.random.default_rng(11))
        for owner in ("o0", "o2", "o20", "o90", "o700"):
            vector_scope = VectorScope(owner, "n", "s")
            for _ in range(10):
                asked = normalised(topics[rng.integers(len(topics))] + rng.standard_normal(384))
                rows = await near.find(vector_scope, asked, 10)
                assert len(rows) == 10
                assert all(id_.startswith(f"{owner}-") for id_, _ in rows)
                truth = {id_ for id_, _ in await exact.find(vector_scope, asked, 10)}
                assert len(truth & {id_ for id_, _ in rows}) >= 9


async def test_a_request_that_a_node_accepted_is_refused_by_the_other(url: str) -> None:
    nonce = str(uuid.uuid4())
    async with PostgresDatabase(url, steps(WORDS)) as first:
        assert await SharedNonces(first).take(nonce, 1.0, 1.0)
        async with PostgresDatabase(url, steps(WORDS)) as second:
            assert not await SharedNonces(second).take(nonce, 1.0, 1.0)
            assert await SharedNonces(second).take(str(uuid.uuid4()), 1.0, 1.0)
