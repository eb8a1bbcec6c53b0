"""Withdraws a message that was deleted on its platform, unless a model has read it."""

import logging
from collections.abc import Callable

from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import InboundMessage
from skerry.model.run import BY_SENDER
from skerry.runtime.run_context import Runtime
from skerry.store import Unit, group_history, held_messages, inbound

logger = logging.getLogger(__name__)


async def withdraw(
    runtime: Runtime,
    deleted: InboundMessage,
    abort: Callable[[SessionKey, RunId | None, str], object],
) -> None:
    """Stops the runs of the message, and removes it from held messages and the group history.

    Text that a model has read stays in the transcript.
    """

    def write(unit: Unit) -> list[RunId]:
        run_ids = inbound.runs_of(unit, deleted, deleted.deletes)
        held_messages.drop(unit, run_ids)
        for run_id in run_ids:
            group_history.drop(unit, run_id)
        return run_ids

    for run_id in await runtime.store.write(write):
        active = runtime.running.get(run_id)
        if active is not None:
            logger.info("a message over %s was deleted: its run stops", deleted.channel)
            abort(active.request.key, run_id, BY_SENDER)
