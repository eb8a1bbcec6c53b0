"""Effect of a client that requests much and never reads, on other clients and on the memory."""

import statistics

import anyio

from bench.measure import Driver, driver, figure, stubbed_gateway

ROUNDS = 5
TURNS = 200
HISTORIES = 1500
HISTORY = {"sessionKey": "long", "limit": 1000}


async def main() -> None:
    with stubbed_gateway() as (gateway, _):

        async def round_() -> tuple[float, float]:
            """Returns the median latency and the CPU of a turn, in ms."""
            before = gateway.tree.cpu()
            seconds = await client.turns(TURNS, ["others"])
            used = gateway.tree.cpu() - before
            return statistics.median(seconds) * 1e3, used / TURNS * 1e3

        async def ask_and_never_read(stuck: Driver) -> None:
            stuck.socket.transport.pause_reading()
            for _ in range(HISTORIES):
                await stuck.request("chat.history", HISTORY)

        async with driver(gateway) as client:
            await client.turns(500, ["long"], "a line of a long conversation " * 10)
            quiet = [await round_() for _ in range(ROUNDS)]
            memory = gateway.tree.rss()
            async with driver(gateway) as stuck, anyio.create_task_group() as tasks:
                tasks.start_soon(ask_and_never_read, stuck)
                busy = [await round_() for _ in range(ROUNDS)]
                tasks.cancel_scope.cancel()
                stuck.socket.transport.abort()
            peak = gateway.tree.peak()
    for name, column, unit in (("latency", 0, "median ms"), ("CPU", 1, "ms")):
        baseline = statistics.median(costs[column] for costs in quiet)
        worst = max(costs[column] for costs in busy)
        last = busy[-1][column]
        figure(
            f"a turn beside a client that never reads, {name}, {unit}",
            "",
            f"{last:.2f}",
            f"without it {baseline:.2f}; while it asked {worst:.2f}",
        )
    figure(
        "peak memory with that client, MB",
        "",
        f"{peak:.0f}",
        f"before {memory:.0f}; {HISTORIES} histories of 1,000 messages asked for",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
