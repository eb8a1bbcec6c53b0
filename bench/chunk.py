"""CPU of one streamed chunk, in the whole gateway and in the adapter, beside a plain client.

The model is a stub in a process of its own; it waits a little between two chunks, so that each is a
network read of its own, as with a real model.
"""

import json
import statistics
import time
from functools import partial

import anyio
import httpx2

from bench.measure import driver, figure, model_server, stubbed_gateway
from skerry.features.openai_completions.provider import CompatProvider
from skerry.infra.http import HttpClient
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest, ReplyListener
from skerry.providers.retry import RetryingProvider
from skerry.providers.streaming_call import Endpoint

CHUNKS = 1000
CALLS = 300
ROUNDS = 5
OPTIONS = ("--text", "x" * CHUNKS * 5, "--events-per-text", str(CHUNKS), "--delay-ms", "1")
MODEL = ModelInfo("stub", "stub", "Stub")


def request() -> ModelRequest:
    history = History()
    history.append(user("hello", 1))
    return ModelRequest(MODEL, "You are a benchmark. " * 400, history)


async def adapter_cost(http: HttpClient, base_url: str) -> tuple[float, float, int]:
    """Returns CPU and wall seconds of one call, and the number of deltas."""
    provider = RetryingProvider(CompatProvider(http, Endpoint("Stub", base_url)))
    reads: list[str] = []
    wall, cpu = time.perf_counter(), time.process_time()
    await provider.complete(request(), ReplyListener(reads.append))
    return time.process_time() - cpu, time.perf_counter() - wall, len(reads)


async def plain(http: httpx2.AsyncClient, base_url: str) -> tuple[float, float, int]:
    """Returns the same for plain httpx2: its pool, its lines, json."""
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


async def through_gateway() -> None:
    cost: list[float] = []
    reads: list[float] = []
    with stubbed_gateway(*OPTIONS) as (gateway, _):
        async with driver(gateway) as client:
            await client.turns(2, ["warm"])
            for _ in range(ROUNDS):
                before, events = gateway.tree.cpu(), client.events
                await client.turns(1, ["chunks"])
                cost.append((gateway.tree.cpu() - before) / CHUNKS * 1e6)
                reads.append(client.events - events)
    figure(
        "CPU per streamed chunk, whole gateway, us",
        "<= 150",
        f"{statistics.median(cost):.0f}",
        f"one client, {statistics.median(reads):.0f} events for {CHUNKS} chunks of 5 characters",
    )


async def through_adapter(http: HttpClient, base: httpx2.AsyncClient) -> None:
    with model_server(*OPTIONS) as model:
        mine: list[float] = []
        other: list[float] = []
        for _ in range(ROUNDS):
            cpu, _, reads = await adapter_cost(http, model.base_url)
            mine.append(cpu / CHUNKS * 1e6)
            assert reads > CHUNKS * 0.95, f"only {reads} reads of {CHUNKS} chunks"
            cpu, _, _ = await plain(base, model.base_url)
            other.append(cpu / CHUNKS * 1e6)
    figure(
        "CPU per streamed chunk, adapter alone, us",
        "",
        f"{statistics.median(mine):.0f}",
        f"plain httpx2 {statistics.median(other):.0f}",
    )


async def calls(http: HttpClient, base: httpx2.AsyncClient) -> None:
    with model_server() as model:
        cost: list[float] = []
        for call in (partial(adapter_cost, http), partial(plain, base)):
            for _ in range(20):
                await call(model.base_url)
            figures = [await call(model.base_url) for _ in range(CALLS)]
            cost.append(sum(cpu for cpu, _, _ in figures) / CALLS * 1e3)
    figure("CPU per model call, ms", "", f"{cost[0]:.2f}", f"plain httpx2 {cost[1]:.2f}")


async def main() -> None:
    await through_gateway()
    async with HttpClient() as http, httpx2.AsyncClient(trust_env=False, timeout=60) as base:
        await through_adapter(http, base)
        await calls(http, base)


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
