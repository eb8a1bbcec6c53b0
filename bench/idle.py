"""Cost of clients that only listen: memory of 300 and of 1,000, their idle CPU, and a turn."""

import time
from contextlib import AsyncExitStack

import anyio

from bench.fanout import drain
from bench.measure import Driver, driver, figure, settled, stubbed_gateway

CLIENTS = (300, 1000)
MAX_CLIENTS = CLIENTS[-1]
BUDGET_KB = 45
REST_SECONDS = 75  # longer than the minute after which the memory begins its deferred work
GIVE_SECONDS = 160  # longer than the pause after which free pages go back to the system
IDLE_SECONDS = 31  # a tick is sent every 30
TURNS = 20


async def main() -> None:
    with stubbed_gateway() as (gateway, _):
        async with (
            driver(gateway) as client,
            AsyncExitStack() as stack,
            anyio.create_task_group() as tasks,
        ):
            await client.turns(50, ["warm"])
            await settled(gateway, quiet=REST_SECONDS, within=4 * REST_SECONDS)
            memory = gateway.tree.rss()
            watchers: list[Driver] = []
            grown: dict[int, float] = {}
            connect_cpu = 0.0
            for number in CLIENTS:
                cpu = gateway.tree.cpu()
                while len(watchers) < number:
                    watcher = await stack.enter_async_context(driver(gateway))
                    watchers.append(watcher)
                    tasks.start_soon(drain, watcher)
                connect_cpu += gateway.tree.cpu() - cpu
                await anyio.sleep(GIVE_SECONDS)
                grown[number] = gateway.tree.rss() - memory
            cpu, begin = gateway.tree.cpu(), time.perf_counter()
            await anyio.sleep(IDLE_SECONDS)
            idle = (gateway.tree.cpu() - cpu) / (time.perf_counter() - begin)
            cpu = gateway.tree.cpu()
            await client.turns(TURNS, ["beside"])
            turn = (gateway.tree.cpu() - cpu) / TURNS
            for watcher in watchers:
                watcher.socket.transport.abort()
    for number in CLIENTS:
        figure(
            f"memory per idle connection of {number}, kB",
            f"<= {BUDGET_KB}",
            f"{grown[number] / number * 1e3:.0f}",
            f"each authenticated; {memory:.1f} MB without them",
        )
    figure(
        f"CPU with {MAX_CLIENTS} idle connections",
        "",
        f"{idle:.2%}",
        f"ticks over {IDLE_SECONDS} s",
    )
    figure(
        f"CPU per turn that {MAX_CLIENTS} clients hear, ms",
        "",
        f"{turn * 1e3:.0f}",
        f"to accept one took {connect_cpu / MAX_CLIENTS * 1e3:.2f} ms",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
