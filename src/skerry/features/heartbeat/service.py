"""Runs the heartbeats of agents at their intervals."""

import logging
from typing import TYPE_CHECKING, Final

import anyio

from skerry.features.heartbeat.rules import settings
from skerry.gateway.context import GatewayContext
from skerry.model.errors import StateError
from skerry.store import internal_runs

if TYPE_CHECKING:
    from skerry.features.heartbeat.checks import Heartbeats

logger = logging.getLogger(__name__)

MAX_SLEEP_SECONDS: Final = 60.0
"""Maximum seconds between two readings of the clock, which may be set."""
FIRST_SECONDS: Final = 60.0
"""Delay after the start of the gateway, in seconds."""
SIGNAL: Final = "heartbeat"


async def run(context: GatewayContext) -> None:
    """Runs the heartbeats of every agent until cancelled."""
    runs = context.internal_runs
    if runs is None:
        return
    if not await _has_ended(context):
        await context.signals.wait(SIGNAL, FIRST_SECONDS)
        while not settings(context.config()):
            await context.signals.wait(SIGNAL, MAX_SLEEP_SECONDS)
    from skerry.features.heartbeat.checks import Heartbeats  # noqa: PLC0415 - at first use

    heartbeats = Heartbeats(context, runs)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runs.collect, SIGNAL, heartbeats.settle)
        await _tick(context, heartbeats)


async def _has_ended(context: GatewayContext) -> bool:
    """Returns true when a check of an earlier process ended without its message to the owner."""
    try:
        return bool(await context.store.read(lambda reader: internal_runs.owed(reader, SIGNAL)))
    except StateError:
        return False  # the collection waits for the store


async def _tick(context: GatewayContext, heartbeats: "Heartbeats") -> None:
    while True:
        try:
            seconds = await heartbeats.look()
        except StateError as error:
            logger.warning("heartbeats wait for the store: %s", error)
            seconds = 1.0
        await context.signals.wait(SIGNAL, min(seconds, MAX_SLEEP_SECONDS))
