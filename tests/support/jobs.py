"""Cron jobs in a gateway of this process, on a clock that the test moves."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from skerry.client.client import GatewayClient
from skerry.ports.model import Models
from skerry.store import no_fault
from skerry.testing.channel import CHANNEL
from skerry.testing.clock import FakeClock
from tests.support.chaos import until
from tests.support.moments import Life, echoing, life

MINUTE = 60_000
HOUR = 60 * MINUTE
START = 1_795_521_600_000  # 2026-11-24T12:00:00Z
ANN = {"commands": {"ownerAllowFrom": [f"{CHANNEL}:ann"]}}


class Jobs:
    """A gateway with jobs."""

    def __init__(self, life: Life, clock: FakeClock) -> None:
        self.life = life
        self.clock = clock

    async def ask(self, method: str, **params: Any) -> Any:
        async with GatewayClient(self.life.address) as client:
            return await client.request(method, params)

    async def add(self, **more: Any) -> str:
        """Adds a job that runs each hour; returns its id."""
        payload = {"kind": "agentTurn", "message": "count"}
        every = {"kind": "every", "everyMs": HOUR}
        params = {"name": "frogs", "schedule": every, "payload": payload} | more
        return str((await self.ask("cron.add", **params))["id"])

    async def job(self, job_id: str) -> dict[str, Any]:
        payload: dict[str, Any] = await self.ask("cron.get", id=job_id)
        return payload

    async def runs(self, number: int, **params: Any) -> list[dict[str, Any]]:
        """Waits for that many ended runs; returns them, the first ended first."""
        entries: list[dict[str, Any]] = []

        with anyio.fail_after(60):
            while len(entries) < number:
                entries = (await self.ask("cron.runs", sortDir="asc", **params))["entries"]
        return entries

    def pass_time(self, milliseconds: int) -> None:
        """Moves the clock and lets the scheduler look at it."""
        self.clock.advance(milliseconds)
        self.life.gateway.context.signals.set("cron")

    async def write(self, text: str = "hello", peer: str = "ann") -> None:
        """Lets the owner write, and waits for the answer."""
        before = len(self.texts())
        self.life.platform.say(text, peer=peer, message_id=f"{peer}-{text}")
        await until(lambda: len(self.texts()) > before, self.texts)

    def texts(self) -> list[str]:
        """Returns what the platform received."""
        return [message.text for message in self.life.platform.received()]


@asynccontextmanager
async def jobs(
    folder: Path,
    models: Models | None = None,
    *,
    clock: FakeClock | None = None,
    config: Mapping[str, Any] | None = None,
    reach: Callable[[str], None] = no_fault,
) -> AsyncGenerator[Jobs]:
    """Runs a gateway over the folder, whose owner is `ann` on the platform."""
    clock = clock or FakeClock(START)
    settings = {**ANN, **(config or {})}
    async with life(folder, reach, models or echoing(), settings, clock) as here:
        yield Jobs(here, clock)
