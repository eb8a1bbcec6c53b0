"""Resumes the unfinished exchanges of an earlier process."""

import anyio

from skerry.features.session_tools import tables
from skerry.features.session_tools.exchange import Follower
from skerry.gateway.context import GatewayContext


async def run(context: GatewayContext) -> None:
    """Follows each exchange of an earlier process to its end."""
    runs = context.internal_runs
    if runs is None:
        return
    exchanges = await context.store.read(tables.unfinished)
    follower = Follower(runs.dispatch)
    async with anyio.create_task_group() as tasks:
        for exchange in exchanges:
            tasks.start_soon(follower.follow, exchange)
