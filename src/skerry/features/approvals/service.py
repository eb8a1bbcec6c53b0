"""Notifies clients of approvals: an event for each requested, answered or expired approval."""

import anyio

from skerry.features.approvals import wire
from skerry.gateway.context import GatewayContext
from skerry.store.approvals import StoredApproval


async def run(context: GatewayContext) -> None:
    """Sends the events until cancelled."""
    desk = context.approvals
    if desk is None:
        return

    def reaches(_: StoredApproval) -> bool:
        return context.broadcast.receivers("exec.approval.requested") > 0

    def requested(approval: StoredApproval) -> None:
        context.broadcast.send("exec.approval.requested", wire.requested(approval))

    def resolved(approval: StoredApproval) -> None:
        payload = wire.resolved(approval, context.clock.now_ms())
        context.broadcast.send("exec.approval.resolved", payload)

    with desk.listening(reaches, requested, resolved):
        await anyio.sleep_forever()
