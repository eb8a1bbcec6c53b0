"""What a gateway does for its state from time to time, whoever talks to it."""

import logging

import anyio

from skerry.model.errors import StateError
from skerry.store import Store, keys

logger = logging.getLogger(__name__)


async def keep_up(store: Store) -> None:
    """Count the quarters of an hour that the gateway runs, until cancelled."""
    while True:
        await anyio.sleep(keys.QUARTER_SECONDS)
        try:
            await store.write(keys.pass_quarter)
        except StateError:
            logger.exception("a quarter could not be counted; keys are kept a quarter longer")
