"""Logs the parts that platforms accepted or refused."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import MessageSent

logger = logging.getLogger(__name__)


async def log_outcome(event: MessageSent) -> None:
    """Logs the outcome."""
    if event.success:
        logger.info("%s: %d characters to %s", event.channel, len(event.content), event.to)
    else:
        logger.warning("%s refused a part for %s: %s", event.channel, event.to, event.error)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.message_sent(log_outcome)
