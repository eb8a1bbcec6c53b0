"""Time and CPU of a call of the tool `exec` in a gateway, beside bubblewrap alone.

What a turn takes whose call reads a file is taken off. The rest is the analysis of the command
`true`, policy, approval gate, sandbox and output. Last come many calls at once.
"""

import statistics
import tempfile
import time
from pathlib import Path

import anyio

from bench.measure import Driver, Gateway, driver, figure, settled, stubbed_gateway
from bench.sandbox import AT_ONCE, bare, measured

ROUNDS = 7
TURNS = 20
EXEC = 'call exec {"command": "true"}'
READ = 'call read {"path": "AGENTS.md"}'
BUDGETS = (("CPU", ""), ("time", "<= 2"))


async def cost(client: Driver, gateway: Gateway, text: str) -> tuple[float, float]:
    """Returns the CPU and the time of a turn, in milliseconds."""
    before, begin = gateway.tree.cpu(), time.perf_counter()
    await client.turns(TURNS, ["bench"], text)
    costs = time.perf_counter() - begin
    return (gateway.tree.cpu() - before) / TURNS * 1e3, costs / TURNS * 1e3


async def at_once(client: Driver, gateway: Gateway) -> None:
    """Prints the duration of many concurrent calls."""
    sessions = [f"many-{number}" for number in range(AT_ONCE)]
    await client.turns(AT_ONCE, sessions, READ)
    await settled(gateway)
    costs: list[tuple[float, float]] = []
    for text in (READ, EXEC):
        before, begin = gateway.tree.cpu(), time.perf_counter()
        await client.turns(AT_ONCE, sessions, text)
        wall = (time.perf_counter() - begin) * 1e3
        costs.append(((gateway.tree.cpu() - before) / AT_ONCE * 1e3, wall))
    (cpu, wall), (more, longer) = costs
    figure(
        f"exec, {AT_ONCE} calls at once, ms in all",
        "",
        f"{longer:.0f}",
        f"{more - cpu:.1f} ms of CPU each; that many reads of a file {wall:.0f} ms; the gateway had"
        f" {gateway.tree.peak():.0f} MB at most",
    )


async def main(state: Path) -> None:
    (state / "workspace").mkdir()
    plain = bare(state)
    with stubbed_gateway() as (gateway, _):
        async with driver(gateway) as client:
            for text in (EXEC, READ):
                await client.turns(TURNS, ["bench"], text)
            history = await client.answer("chat.history", {"sessionKey": "bench"})
            results = [each for each in history["messages"] if each["role"] == "toolResult"]
            assert results
            assert not any(each["isError"] for each in results), "the calls really ran"
            await settled(gateway)
            rounds = [
                (
                    await cost(client, gateway, EXEC),
                    await cost(client, gateway, READ),
                    await measured(plain),
                )
                for _ in range(ROUNDS)
            ]
            for index, (quantity, budget) in enumerate(BUDGETS):
                calls = [run[index] - read[index] for run, read, _ in rounds]
                baseline = [run[index] for *_, run in rounds]
                ratio = statistics.median(a / b for a, b in zip(calls, baseline, strict=True))
                own_cost, baseline_cost = statistics.median(calls), statistics.median(baseline)
                detail = f"{own_cost:.1f} ms beside {baseline_cost:.1f} ms"
                figure(f"exec, {quantity} of a call, times bwrap", budget, f"{ratio:.2f}", detail)
            await at_once(client, gateway)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        anyio.run(main, Path(name))
