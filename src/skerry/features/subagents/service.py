"""Follows the sub-agents of an earlier process, and deletes old rows of the registry."""

from typing import Final

import anyio

from skerry.features.subagents import tables
from skerry.features.subagents.watch import Watch
from skerry.gateway.context import GatewayContext

KEPT_DAYS: Final = 30
"""Days for which the registry keeps an ended sub-agent."""
_DAY_MS: Final = 86_400_000


async def run(context: GatewayContext) -> None:
    """Follows each sub-agent of an earlier process to its end."""
    store, runs = context.store, context.internal_runs
    if runs is None:
        return
    subagents = await store.read(tables.unfinished)
    before = context.clock.now_ms() - KEPT_DAYS * _DAY_MS
    if await store.read(lambda reader: tables.any_old(reader, before)):
        await store.write(lambda unit: tables.prune(unit, before))
    watch = Watch(runs.dispatch)
    async with anyio.create_task_group() as tasks:
        for subagent in subagents:
            tasks.start_soon(watch.follow, subagent.run_id)
