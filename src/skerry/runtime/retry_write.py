"""Writes that nothing goes on without: while the disk is full they are tried again."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from skerry.model.errors import StoreFailedError
from skerry.model.ids import RunId

logger = logging.getLogger(__name__)

STORE_SECONDS: Final = 1.0
"""Seconds between two tries."""
T = TypeVar("T")


async def persisted(run_id: RunId, step: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of `step`, as soon as the store accepts it.

    Only the gateway's stop ends the waiting, and never in the middle of a unit.
    """
    told = False
    while True:
        try:
            with anyio.CancelScope(shield=True):
                return await step()
        except StoreFailedError as error:
            if not told:
                logger.warning("run %s waits for the store: %s", run_id, error)
                told = True
        await anyio.sleep(STORE_SECONDS)
