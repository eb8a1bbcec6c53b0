"""Runs the scheduler as soon as a job exists; a gateway without jobs does not import it."""

from skerry.features.cron import tables
from skerry.gateway.context import GatewayContext


async def run(context: GatewayContext) -> None:
    """Waits for the first job, then schedules until cancelled."""
    runs = context.internal_runs
    if runs is None:
        return
    while not await context.store.read(tables.any_work):
        await context.signals.wait("cron")
    from skerry.features.cron.scheduler import Scheduler  # noqa: PLC0415 - at first use

    await Scheduler(context, runs).run()
