"""The index of vectors in PostgreSQL beside a full scan: 1,000 tenants of 10 to 100,000 memories.

A recall of a tenant must not come back short, nor with others' rows, and must find the nearest. It
needs `.venv-postgres` (`make conformance` makes it) and some minutes.
"""

import argparse
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import numpy as np
import psycopg

from bench.measure import figure
from skerry_recall.embed import normalised
from skerry_relayer.postgres import EXACT_ROWS, WORDS, NearestInPostgres, PostgresDatabase
from skerry_relayer.schema import steps
from skerry_relayer.vector_search import VectorScope
from tests.support.mocks import program

SERVE = Path(__file__).parent.parent / "tests" / "conformance" / "postgres" / "serve.py"
DIMS = 384
LIMIT = 10
QUERIES_PER_TENANT = 20
"""Questions to each tenant that is asked."""
TENANTS = {100_000: 1, 10_000: 4, 1_000: 30, 100: 100, 10: 865}
"""How many tenants have so many memories."""
SPACE = "s"


@contextmanager
def server() -> Iterator[str]:
    """Runs a PostgreSQL; gives its address."""
    python = program("SKERRY_POSTGRES_PYTHON", ".venv-postgres/bin/python")
    with subprocess.Popen(
        [python, str(SERVE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def centres(rng: np.random.Generator) -> np.ndarray:
    """Returns directions around which texts lie: those of real texts are not spread evenly."""
    return rng.standard_normal((200, DIMS))


def fill(url: str, share: float) -> list[tuple[str, int]]:
    """Stores the memories of all tenants; returns each tenant with their number."""
    rng = np.random.default_rng(11)
    topics = centres(rng)
    tenants: list[tuple[str, int]] = []
    with psycopg.connect(url) as connection:
        for size, count in TENANTS.items():
            for _ in range(count):
                rows = max(LIMIT, round(size * share)) if size > LIMIT else size
                owner = f"o{len(tenants)}"
                tenants.append((owner, rows))
                noise = rng.standard_normal((rows, DIMS))
                vectors = normalised(topics[rng.integers(len(topics), size=rows)] + noise)
                _copy(connection, owner, vectors)
        connection.execute("ANALYZE memory")  # as the database would, a while later
        connection.commit()
    return tenants


def _copy(connection: psycopg.Connection, owner: str, vectors: np.ndarray) -> None:
    columns = (
        "memory_id, owner, account_id, namespace, blob_id, tag, created_at, updated_at, size,"
        " importance, space, vector"
    )
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY memory ({columns}) FROM STDIN") as copy:
            for number, vector in enumerate(vectors):
                id_ = f"{owner}-{number}"
                text = "[" + ",".join(f"{value:.6g}" for value in vector.tolist()) + "]"
                copy.write_row((id_, owner, "a", "n", id_, id_, 1, 1, 1, 0.5, SPACE, text))
        cursor.execute(
            "INSERT INTO tally (owner, namespace, memories, bytes, updated_at)"
            " VALUES (%s, 'n', %s, 1, 1)",
            (owner, len(vectors)),
        )


def give(url: str, memory: str) -> None:
    """Lets the server use so much memory to build an index, in every session from now on."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET maintenance_work_mem = '{memory}'")
        connection.execute("SELECT pg_reload_conf()")


async def run(share: float, memory: str) -> None:
    """Prints all figures."""
    with server() as url:
        give(url, memory)
        async with PostgresDatabase(url, steps(WORDS)) as database:
            tenants = fill(url, share)
            total = sum(rows for _, rows in tenants)
            begun = time.perf_counter()
            await NearestInPostgres(database).index_space(SPACE, DIMS)
            built = time.perf_counter() - begun
            figure(f"index of {total:,} vectors, s", "", f"{built:.0f}", f"{len(tenants)} tenants")
            every = NearestInPostgres(database, exact_rows=0)
            usual = NearestInPostgres(database)
            exact = NearestInPostgres(database, exact_rows=total)
            for size, count in TENANTS.items():
                selected = [
                    tenant for tenant in tenants if tenant[1] == (round(size * share) or size)
                ]
                selected = (selected or [tenant for tenant in tenants if tenant[1] <= size])[
                    :count
                ][:5]
                await compare(size, selected, (every, usual, exact))


async def compare(
    size: int,
    tenants: list[tuple[str, int]],
    ways: tuple[NearestInPostgres, NearestInPostgres, NearestInPostgres],
) -> None:
    """Prints recall and time of the index for tenants of one size."""
    every, usual, exact = ways
    rng = np.random.default_rng(5)
    topics = centres(np.random.default_rng(11))
    short, hits, expected, times = 0, 0, 0, []
    for owner, rows in tenants:
        scope = VectorScope(owner, "n", SPACE)
        for _ in range(QUERIES_PER_TENANT):
            noise = rng.standard_normal(DIMS)
            vector = normalised(topics[rng.integers(len(topics))] + noise)
            truth = {id_ for id_, _ in await exact.find(scope, vector, LIMIT)}
            near = {id_ for id_, _ in await every.find(scope, vector, LIMIT)}
            assert all(id_.startswith(f"{owner}-") for id_ in near)
            short += len(near) < min(LIMIT, rows)
            hits += len(near & truth)
            expected += len(truth)
            begun = time.perf_counter()
            await usual.find(scope, vector, LIMIT)
            times.append((time.perf_counter() - begun) * 1000)
    size = tenants[0][1] if tenants else size
    way = "index" if size > EXACT_ROWS else "full scan"
    median = f"{statistics.median(times):.1f} ms (p50) by {way}"
    recall = f"{100 * hits / expected:.1f}"
    figure(f"recall@10 of the index, tenants of {size:,}, %", ">= 95", recall, median)
    figure(f"answers that are short, tenants of {size:,}", "<= 0", str(short))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=1.0, help="share of the memories")
    parser.add_argument("--memory", default="64MB", help="memory to build the index with")
    parser.add_argument("--minutes", type=float, help="not used")
    options = parser.parse_args()
    anyio.run(run, options.share, options.memory)
