"""Turns a second with many sessions at once, over one pipelined connection."""

import statistics
import time
from dataclasses import dataclass

import anyio

from bench.measure import driver, figure, settled, stubbed_gateway

ROUNDS = 5
TURNS = 1500
SESSIONS = (1, 10, 100)
BUDGETS = {100: ">= 350"}


@dataclass(frozen=True, slots=True)
class Round:
    """Duration of one round, in seconds."""

    wall: float
    gateway: float
    stub: float
    driver: float


async def main() -> None:
    rounds: dict[int, list[Round]] = {number: [] for number in SESSIONS}
    with stubbed_gateway() as (gateway, model):
        async with driver(gateway) as client:
            await client.turns(300, [f"warm-{round_number}" for round_number in range(100)])
            await settled(gateway)
            for round_number in range(ROUNDS):
                for number in SESSIONS:
                    names = [f"{round_number}-{number}-{one}" for one in range(number)]
                    turns = TURNS if number > 1 else TURNS // 3
                    before = gateway.tree.cpu(), model.tree.cpu(), time.process_time()
                    begin = time.perf_counter()
                    await client.turns(turns, names)
                    wall = time.perf_counter() - begin
                    after = gateway.tree.cpu(), model.tree.cpu(), time.process_time()
                    used = [(b - a) / turns for a, b in zip(before, after, strict=True)]
                    rounds[number].append(Round(wall / turns, *used))
    for number in SESSIONS:
        costs = rounds[number]
        rate = statistics.median(1 / cost.wall for cost in costs)
        used = [
            statistics.median(getattr(cost, name) / cost.wall for cost in costs)
            for name in ("gateway", "stub", "driver")
        ]
        cost = statistics.median(cost.gateway for cost in costs) * 1e3
        figure(
            f"turns/s at {number} session{'s' if number > 1 else ''}",
            BUDGETS.get(number, ""),
            f"{rate:.0f}",
            f"gateway {cost:.2f} ms a turn; of a core: gateway {used[0]:.0%}, stub {used[1]:.0%},"
            f" driver {used[2]:.0%}",
        )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
