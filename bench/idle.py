"""Cost of a thousand clients that only listen: memory, CPU while nothing happens, and a turn."""

import time
from contextlib import AsyncExitStack

import anyio

from bench.fanout import drain
from bench.measure import driver, figure, settled, stubbed_gateway

CLIENTS = 1000
SETTLE_SECONDS = 5
IDLE_SECONDS = 31  # a tick comes every 30
TURNS = 20


async def main() -> None:
    with stubbed_gateway() as (gateway, _):
        async with (
            driver(gateway) as client,
            AsyncExitStack() as stack,
            anyio.create_task_group() as tasks,
        ):
            await client.turns(50, ["warm"])
            await settled(gateway)
            memory, cpu = gateway.tree.rss(), gateway.tree.cpu()
            watchers = []
            for _ in range(CLIENTS):
                watcher = await stack.enter_async_context(driver(gateway))
                watchers.append(watcher)
                tasks.start_soon(drain, watcher)
            came = gateway.tree.cpu() - cpu
            await anyio.sleep(SETTLE_SECONDS)
            grown = gateway.tree.rss() - memory
            cpu, begin = gateway.tree.cpu(), time.perf_counter()
            await anyio.sleep(IDLE_SECONDS)
            idle = (gateway.tree.cpu() - cpu) / (time.perf_counter() - begin)
            cpu = gateway.tree.cpu()
            await client.turns(TURNS, ["beside"])
            turn = (gateway.tree.cpu() - cpu) / TURNS
            for watcher in watchers:
                watcher.socket.transport.abort()
    figure(
        "memory per idle connection, kB",
        "",
        f"{grown / CLIENTS * 1e3:.0f}",
        f"{CLIENTS} connections; {memory:.1f} MB without them",
    )
    figure(
        f"CPU with {CLIENTS} idle connections", "", f"{idle:.2%}", f"ticks over {IDLE_SECONDS} s"
    )
    figure(
        f"CPU per turn that {CLIENTS} clients hear, ms",
        "",
        f"{turn * 1e3:.0f}",
        f"to let one in took {came / CLIENTS * 1e3:.2f} ms",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
