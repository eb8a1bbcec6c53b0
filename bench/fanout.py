"""CPU of sending one event to one more client."""

import statistics
from contextlib import AsyncExitStack, suppress

import anyio
from websockets.exceptions import ConnectionClosed

from bench.measure import Driver, driver, figure, settled, stubbed_gateway

ROUNDS = 5
TURNS = 100
CLIENTS = 100


async def drain(client: Driver) -> None:
    with suppress(ConnectionClosed):
        while True:
            await client.socket.recv(decode=False)


async def main() -> None:
    single_client: list[float] = []
    watched: list[float] = []
    ratios: list[float] = []
    events = 0.0
    with stubbed_gateway() as (gateway, _):

        async def turn_cpu() -> tuple[float, float]:
            """Returns CPU seconds and events of one turn."""
            before, events = gateway.tree.cpu(), client.events
            await client.turns(TURNS, ["fanout"])
            used = gateway.tree.cpu() - before
            return used / TURNS, (client.events - events) / TURNS

        async with driver(gateway) as client:
            await client.turns(100, ["warm"])
            await settled(gateway)
            for _ in range(ROUNDS):
                single_cost, events = await turn_cpu()
                async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
                    watchers = [
                        await stack.enter_async_context(driver(gateway)) for _ in range(CLIENTS)
                    ]
                    for watcher in watchers:
                        tasks.start_soon(drain, watcher)
                    many_cost, _ = await turn_cpu()
                    for watcher in watchers:
                        watcher.socket.transport.abort()
                single_client.append(single_cost)
                watched.append((many_cost - single_cost) / events / CLIENTS)
                ratios.append(many_cost / single_cost)
    figure(
        "CPU per event and further client, us",
        "<= 15",
        f"{statistics.median(watched) * 1e6:.1f}",
        f"{CLIENTS} clients make a turn {statistics.median(ratios):.1f} times as dear;"
        f" {events:.0f} events a turn",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
