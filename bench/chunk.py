"""CPU of one streamed chunk and of one model call, beside the budget and a plain client.

The model is a stub in a process of its own; it waits a little between two chunks, so that each is a
network read of its own, as with a real model.
"""

import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2

from skerry.infra.http import http_client
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.providers.compat import CompatProvider, Endpoint
from skerry.providers.retry import RetryingProvider

BUDGET_US = 150
CHUNKS = 1000
CALLS = 300
ROUNDS = 5
MODEL = ModelInfo("stub", "stub", "Stub")


@asynccontextmanager
async def stub(*options: str) -> AsyncIterator[str]:
    command = [sys.executable, "-m", "skerry.testing.model", "--port", "0", *options]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        ready = json.loads(await process.stdout.receive())
        yield ready["base_url"]
        process.terminate()


def request() -> ModelRequest:
    history = History()
    history.append(user("hello", 1))
    return ModelRequest(MODEL, "You are a benchmark. " * 400, history)


async def ours(http: httpx2.AsyncClient, base_url: str) -> tuple[float, float, int]:
    """Return CPU and wall seconds of one call, and how often text came."""
    provider = RetryingProvider(CompatProvider(http, Endpoint("Stub", base_url)))
    reads: list[str] = []
    wall, cpu = time.perf_counter(), time.process_time()
    await provider.complete(request(), reads.append)
    return time.process_time() - cpu, time.perf_counter() - wall, len(reads)


async def plain(http: httpx2.AsyncClient, base_url: str) -> tuple[float, float, int]:
    """Return the same for httpx2 as it comes: its pool, its lines, json."""
    body = {
        "model": "stub",
        "messages": [
            {"role": "system", "content": "You are a benchmark. " * 400},
            {"role": "user", "content": "hello"},
        ],
        "stream": True,
    }
    text: list[str] = []
    wall, cpu = time.perf_counter(), time.process_time()
    async with http.stream("POST", f"{base_url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and "content" in choices[0]["delta"]:
                    text.append(choices[0]["delta"]["content"])
    return time.process_time() - cpu, time.perf_counter() - wall, len(text)


async def chunks(http: httpx2.AsyncClient, base: httpx2.AsyncClient) -> None:
    pieces = ("--text", "x" * CHUNKS * 5, "--pieces", str(CHUNKS), "--delay-ms", "1")
    async with stub(*pieces) as url:
        mine: list[float] = []
        other: list[float] = []
        for _ in range(ROUNDS):
            cpu, _, reads = await ours(http, url)
            mine.append(cpu / CHUNKS * 1e6)
            assert reads > CHUNKS * 0.95, f"only {reads} reads of {CHUNKS} chunks"
            cpu, _, _ = await plain(base, url)
            other.append(cpu / CHUNKS * 1e6)
    print(
        f"streamed chunk, one per read: {statistics.median(mine):.0f} us CPU"
        f" (budget {BUDGET_US}); plain httpx2 {statistics.median(other):.0f} us;"
        f" {CHUNKS} chunks, median of {ROUNDS}, uvloop"
    )


async def calls(http: httpx2.AsyncClient, base: httpx2.AsyncClient) -> None:
    async with stub() as url:
        for name, call, client in (("ours", ours, http), ("plain httpx2", plain, base)):
            for _ in range(20):
                await call(client, url)
            figures = [await call(client, url) for _ in range(CALLS)]
            cpu = sum(cpu for cpu, _, _ in figures) / CALLS * 1e3
            wall = statistics.median(wall for _, wall, _ in figures) * 1e3
            print(f"model call, {name}: {cpu:.2f} ms CPU, {wall:.2f} ms wall, {CALLS} calls")


async def main() -> None:
    async with http_client() as http, httpx2.AsyncClient(trust_env=False, timeout=60) as base:
        await chunks(http, base)
        await calls(http, base)


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
