"""Log who writes, and from where."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import MessageReceived

logger = logging.getLogger(__name__)


async def heard(event: MessageReceived) -> None:
    """Note the length of the message, not its words."""
    who = event.sender or "a client of the gateway"
    logger.info("%s: %s wrote %d characters", event.context.channel, who, len(event.content))


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.message_received(heard)
