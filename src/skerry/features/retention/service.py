"""Looks once a day at what is over `session.maintenance` and `usage.keepCalls`."""

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
"""Seconds after the start, which has other work to do."""
DAY_SECONDS: Final = 86_400.0
KEPT_TOOLS_MS: Final = 7 * DAY_MS
"""Only the tools of the present day are asked for, in whatever time zone."""


async def run(gateway: GatewayContext) -> None:
    """Says what is over the limits, or clear it away, once a day until cancelled."""
    await anyio.sleep(FIRST_SECONDS)
    while True:
        try:
            await look(gateway.store, gateway.config(), gateway.clock.now_ms(), gateway.hooks)
        except (StateError, OSError):
            logger.exception("session.maintenance failed; it is tried again tomorrow")
        await anyio.sleep(DAY_SECONDS)


async def look(store: Store, config: Config, now: int, hooks: Hooks) -> None:
    """Says what is over the limits, or clear it away; drops calls of models that are too old."""
    oldest = now - config.usage.keep_calls
    while await store.write(usage.fold):
        pass  # some at once, so that others write in between
    while await store.write(lambda unit: usage.prune(unit, oldest)):
        pass
    first = str(day(now - KEPT_TOOLS_MS, None))
    await store.write(lambda unit: usage.drop_tools(unit, first))
    await forget_gone(store, now)
    await store.write(lambda unit: settled_runs.drop_without_run(unit, now))
    await anyio.to_thread.run_sync(expire, config.state_dir / MEDIA, now)
    # Imported here: a gateway needs it once a day.
    from skerry.sessions.retention import carry_out, plan, summary  # noqa: PLC0415 - at first use
    from skerry.store.retention import retained  # noqa: PLC0415 - at first use

    maintenance = config.session.maintenance
    due = plan(await store.read(retained), maintenance, now)
    if not (due.archive or due.remove):
        return
    if maintenance.mode == "warn":
        logger.warning(summary(due, completed=False))
        return
    done = await carry_out(store, hooks, config.state_dir / "agents", due, now)
    logger.warning(summary(done, completed=True))
