"""CPU of one turn: without tools, with one tool call, and late in a long conversation."""

import statistics
import time

import anyio

from bench.measure import Driver, Gateway, Model, driver, figure, settled, stubbed_gateway
from skerry.features.memory.index_keeper import SHARE

ROUNDS = 5
TURNS = 300
BLOCK = 100
LONG = 1000
MESSAGE = " ".join(f"word{number % 7} of the day" for number in range(5))
"""Twenty words, which the stub repeats."""
WHOLE_ROUNDS = 1
REST = 75.0
"""Longer than the minute of silence after which the memory begins its deferred work."""
WITHIN = 600.0
CALL = 'call read {"path": "notes.txt"}'


async def cpu_ms(client: Driver, tree: Gateway | Model, text: str, session: str) -> float:
    """Returns CPU ms of `tree` for one turn, measured over many."""
    before = tree.tree.cpu()
    await client.turns(TURNS, [session], text)
    return (tree.tree.cpu() - before) / TURNS * 1e3


async def short() -> None:
    turns: list[float] = []
    tools: list[float] = []
    idle: list[float] = []
    with stubbed_gateway() as (gateway, model):
        async with driver(gateway) as client:
            await client.turns(50, ["warm"])
            await settled(gateway)
            driver_cpu, stub = time.process_time(), model.tree.cpu()
            for number in range(ROUNDS):
                turns.append(await cpu_ms(client, gateway, "hello", f"plain-{number}"))
                tools.append(await cpu_ms(client, gateway, CALL, f"tool-{number}"))
                before = gateway.tree.cpu()
                for _ in range(TURNS):
                    await client.request("health", {})
                    await client.final()
                idle.append((gateway.tree.cpu() - before) / TURNS * 1e3)
            total = ROUNDS * TURNS
            driver_cpu, stub = time.process_time() - driver_cpu, model.tree.cpu() - stub
    wire = statistics.median(idle)
    ratio = statistics.median(a / b for a, b in zip(turns, idle, strict=True))
    figure(
        "CPU per turn, ms",
        "<= 3",
        f"{statistics.median(turns):.2f}",
        f"a `health` request {wire:.2f}, {ratio:.0f} times; rounds {spread(turns)}",
    )
    ratio = statistics.median(a / b for a, b in zip(tools, turns, strict=True))
    figure(
        "CPU per turn with one tool call, ms",
        "",
        f"{statistics.median(tools):.2f}",
        f"{ratio:.1f} times a turn without; driver and stub of both"
        f" {driver_cpu / total * 1e3:.2f} and {stub / total * 1e3:.2f}",
    )


async def whole() -> None:
    """Prints the total cost of turns in all processes, with their remaining work."""
    rounds: list[float] = []
    with stubbed_gateway() as (gateway, _):
        async with driver(gateway) as client:
            await client.turns(50, ["warm"], MESSAGE)
            await settled(gateway, quiet=REST, within=WITHIN)
            at_once, before_rest = 0.0, 0.0
            for number in range(WHOLE_ROUNDS):
                before = gateway.tree.cpu()
                await client.turns(TURNS, [f"whole-{number}"], MESSAGE)
                at_once = gateway.tree.cpu() - before
                await settled(gateway, quiet=REST, within=WITHIN)
                before_rest = gateway.tree.cpu() - before
                rounds.append(before_rest / TURNS * 1e3)
            memory_status = await client.answer("memory.status", {})
        backlog = memory_status["backlog"] or {"said": 0, "seconds": 0}
        waiting = f"{backlog['said']} passages of conversations wait for vectors"
        figure(
            "CPU per turn until at rest, all processes, ms",
            "<= 15",
            f"{statistics.median(rounds):.2f}",
            f"while they ran {at_once / TURNS * 1e3:.2f}; at rest is {REST:g} s without work;"
            f" {waiting}, made at {SHARE:.1%} of a core at most in idle time; together"
            f" {gateway.tree.rss():.0f} MB",
        )


async def long() -> None:
    ratios: list[float] = []
    firsts: list[float] = []
    lasts: list[float] = []
    with stubbed_gateway() as (gateway, _):
        async with driver(gateway) as client:
            await client.turns(100, ["warm"])
            await settled(gateway)
            for number in range(ROUNDS):
                cost: list[float] = []
                for _ in range(LONG // BLOCK):
                    before = gateway.tree.cpu()
                    await client.turns(BLOCK, [f"long-{number}"])
                    cost.append((gateway.tree.cpu() - before) / BLOCK * 1e3)
                firsts.append(cost[0])
                lasts.append(cost[-1])
                ratios.append(cost[-1] / cost[0])
    figure(
        "turns 901-1,000 against 1-100, CPU",
        "<= 1.3",
        f"{statistics.median(ratios):.2f}",
        f"{statistics.median(firsts):.2f} ms and {statistics.median(lasts):.2f} ms;"
        f" rounds {spread(ratios)}",
    )


def spread(figures: list[float]) -> str:
    return f"{min(figures):.2f} to {max(figures):.2f}"


async def main() -> None:
    await short()
    await whole()
    await long()


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
