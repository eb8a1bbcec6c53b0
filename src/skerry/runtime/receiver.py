"""Keeps one account receiving, whatever its adapter or its platform does."""

import logging
from typing import Final

import anyio

from skerry.model.errors import BusyError
from skerry.ports.channel import ChannelAdapter, Inbox

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0


async def receive(adapter: ChannelAdapter, inbox: Inbox) -> None:
    """Runs the adapter until the gateway stops; one that fails or ends starts again.

    The pauses between grow from a second to a minute.
    """
    pause = FIRST_PAUSE
    while True:
        began = anyio.current_time()
        try:
            await adapter.run(inbox)
        except BusyError:
            return  # the gateway stops; what was not acknowledged comes again at the next start
        except Exception:
            # One platform must not take the others down.
            logger.exception("%s/%s stopped receiving", adapter.channel, adapter.account)
        if anyio.current_time() - began > LONGEST_PAUSE:
            pause = FIRST_PAUSE
        await anyio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
