"""Blobs on a Walrus network: late, slow, down, expired and forgotten."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from skerry_relayer import walrus
from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.database import SqliteDatabase
from skerry_relayer.errors import RefusedError
from skerry_relayer.ports import Query
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.walrus import FRESH_MS, Network, WalrusBlobs, network_of
from tests.support.embedding import Words
from tests.support.fake_walrus import FakeWalrus, fake_walrus
from tests.support.relayer_memory import delegate, stored

OWNER = "0x" + "1" * 64
IDS = ("A" * 43, "B" * 43)
DAY_MS = 86_400_000


class Clock:
    now = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walrus, "WAITS", (0.01, 0.01, 0.01))


@asynccontextmanager
async def blobs(
    folder: Path, url: str, clock: Clock | None = None, **options: object
) -> AsyncIterator[WalrusBlobs]:
    network = Network(url, (url,), **options)  # type: ignore[arg-type] # a test names what it needs
    with anyio.fail_after(60):
        async with (
            SqliteDatabase(folder / "index.sqlite", steps(SQLITE)) as database,
            WalrusBlobs(network, database, clock=clock or Clock()) as store,
        ):
            yield store


async def test_a_blob_is_read_by_its_local_id_also_after_a_restart(tmp_path: Path) -> None:
    async with fake_walrus(FakeWalrus(token="t")) as (network, url):  # noqa: S106 - of the test
        async with blobs(tmp_path, url, token="t", epochs=7) as store:  # noqa: S106 - of the test
            await store.put(OWNER, IDS[0], b"first")
            assert network.requests == [("PUT", "epochs=7&deletable=true")]
            assert await store.get(OWNER, IDS) == [b"first", None]
            assert len(network.requests) == 1, "it is still in memory"
        async with blobs(tmp_path, url) as store:
            assert await store.get(OWNER, IDS) == [b"first", None]
            assert await store.heads(OWNER) == [(IDS[0], b"first")]
            assert await store.get("0x" + "2" * 64, IDS) == [None, None]


async def test_a_blob_that_the_aggregator_does_not_know_yet_is_waited_for(tmp_path: Path) -> None:
    async with fake_walrus(FakeWalrus(unknown=2)) as (network, url):
        async with blobs(tmp_path, url) as store:
            await store.put(OWNER, IDS[0], b"first")
        async with blobs(tmp_path, url) as store:
            assert await store.get(OWNER, IDS[:1]) == [b"first"]
            assert [method for method, _ in network.requests].count("GET") == 3
        network.late = dict.fromkeys(network.blobs, 100)
        async with blobs(tmp_path, url) as store:
            with pytest.raises(OSError, match="status 404"):
                await store.get(OWNER, IDS[:1])


async def test_a_slow_certification_is_asked_for_again_and_stores_once(tmp_path: Path) -> None:
    slow = FakeWalrus(uncertified=3)
    async with fake_walrus(slow) as (network, url), blobs(tmp_path, url) as store:
        await store.put(OWNER, IDS[0], b"first")
        await store.put(OWNER, IDS[0], b"first")
        assert len(network.blobs) == 1
        network.uncertified = 100
        with pytest.raises(OSError, match="status 504"):
            await store.put(OWNER, IDS[1], b"second")
        assert await store.get(OWNER, IDS) == [b"first", None]


async def test_a_blob_is_uploaded_again_before_it_ends_and_one_that_ended_is_gone(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with fake_walrus() as (network, url):
        async with blobs(tmp_path, url, clock, epochs=4, epoch_days=1) as store:
            await store.put(OWNER, IDS[0], b"first")
            clock.now += DAY_MS
            assert await store.renew() == 0
            clock.now += DAY_MS + 1
            network.epoch += 2
            assert await store.renew() == 1
            ((_, end),) = network.blobs.values()
            assert end == network.epoch + 4
        network.epoch += 4
        clock.now += FRESH_MS + 1
        async with blobs(tmp_path, url, clock, epochs=4, epoch_days=1) as store:
            assert await store.get(OWNER, IDS[:1]) == [None]
            clock.now += 4 * DAY_MS
            assert await store.renew() == 0
            assert await store.heads(OWNER) == []


async def test_a_forgotten_blob_is_read_no_more(tmp_path: Path) -> None:
    async with fake_walrus() as (_, url), blobs(tmp_path, url) as store:
        await store.put(OWNER, IDS[0], b"first")
        await store.delete(OWNER, IDS)
        assert await store.get(OWNER, IDS) == [None, None]
        assert await store.heads(OWNER) == []


async def test_the_whole_way_with_a_network_that_is_down_for_a_while(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with fake_walrus() as (network, url):
        options = MemoryOptions(tmp_path, blobs=f"walrus+{url}?epochs=3", embedder=Words())
        async with opened(options) as running:
            await stored(running.memories, caller, "Otto eats tuna.")
            network.is_down = True
            answer = await running.memories.recall(caller, Query("default", 1, "Who eats tuna"))
            assert [hit.text for hit in answer.hits] == ["Otto eats tuna."], "from memory"
            network.is_down = False
        async with opened(options) as running:
            answer = await running.memories.recall(caller, Query("default", 1, "Who eats tuna"))
            assert [hit.text for hit in answer.hits] == ["Otto eats tuna."]
            (hit,) = answer.hits
            assert await running.memories.forget(caller, [hit.id]) == 1
            answer = await running.memories.recall(caller, Query("default", 1, "Who eats tuna"))
            assert not answer.hits
    for data, _ in network.blobs.values():
        assert b"tuna" not in data


@pytest.mark.parametrize(
    "address",
    [
        "walrus+ftp://x",
        "walrus+https://",
        "walrus+https://x?epochs=0",
        "walrus+https://x?epochs=99",
        "walrus+https://x?epoch-days=0",
        "walrus+https://x?epochs=many",
        "walrus+https://x?color=green",
        "walrus+https://x:port",
    ],
)
def test_an_address_that_is_no_network_is_refused(address: str) -> None:
    with pytest.raises(RefusedError, match="Use walrus"):
        network_of(address, {})


def test_an_address_has_all_options() -> None:
    network = network_of(
        "walrus+https://p.example/x/?aggregator=https://a.example&aggregator=https://b.example/"
        "&epochs=9&epoch-days=1",
        {"WALRUS_PUBLISHER_TOKEN": "t"},
    )
    assert network == Network(
        "https://p.example/x", ("https://a.example", "https://b.example"), 9, 1.0, "t"
    )
    assert network_of("walrus+https://p.example", {}).aggregators == ("https://p.example",)
