"""Applies `session.maintenance` and `usage.keepCalls` once a day."""

import logging
from typing import Final

import anyio
import anyio.to_thread

from skerry.app.records import forget_gone
from skerry.config.root import Config
from skerry.gateway.context import GatewayContext
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import DAY_MS, day
from skerry.model.errors import StateError
from skerry.runtime.media_in import expire
from skerry.runtime.run_context import MEDIA
from skerry.store import Store, settled_runs, usage

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 600.0
"""Delay after the start of the gateway, in seconds."""
DAY_SECONDS: Final = 86_400.0
KEPT_TOOLS_MS: Final = 7 * DAY_MS
"""Age of tool counts: only those of the present day, in any time zone, are read."""


async def run(gateway: GatewayContext) -> None:
    """Applies the limits once a day until cancelled."""
    await anyio.sleep(FIRST_SECONDS)
    while True:
        try:
            await look(gateway.store, gateway.config(), gateway.clock.now_ms(), gateway.hooks)
        except (StateError, OSError):
            logger.exception("session.maintenance failed; the next attempt is tomorrow")
        await anyio.sleep(DAY_SECONDS)


async def look(store: Store, config: Config, now: int, hooks: Hooks) -> None:
    """Reports or removes sessions beyond the limits; removes old calls and one-off sessions."""
    oldest = now - config.usage.keep_calls
    while await store.write(usage.fold):
        pass  # in batches, so that other writers are not blocked
    while await store.write(lambda unit: usage.prune(unit, oldest)):
        pass
    first = str(day(now - KEPT_TOOLS_MS, None))
    await store.write(lambda unit: usage.drop_tools(unit, first))
    await forget_gone(store, now)
    await store.write(lambda unit: settled_runs.drop_without_run(unit, now))
    await anyio.to_thread.run_sync(expire, config.state_dir / MEDIA, now)
    # Imported here because a gateway needs it once a day.
    from skerry.sessions.retention import (  # noqa: PLC0415 - at first use
        carry_out,
        plan,
        plan_one_off,
        summary,
    )
    from skerry.store.retention import retained  # noqa: PLC0415 - at first use

    agents = config.state_dir / "agents"
    maintenance = config.session.maintenance
    one_off = plan_one_off(await store.read(retained), config.hooks, maintenance.prune_after, now)
    await carry_out(store, hooks, agents, one_off, now, wipes=False)
    due = plan(await store.read(retained), maintenance, now)
    if not (due.archive or due.remove):
        return
    if maintenance.mode == "warn":
        logger.warning(summary(due, completed=False))
        return
    completed = await carry_out(store, hooks, agents, due, now)
    logger.warning(summary(completed, completed=True))
