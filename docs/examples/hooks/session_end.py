"""Logs each conversation that ended."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import SessionEnd

logger = logging.getLogger(__name__)


async def log_end(event: SessionEnd) -> None:
    """Logs the number of messages and the reason."""
    count, reason = event.message_count, event.reason
    logger.info("conversation %s ended after %d messages: %s", event.session_key, count, reason)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.session_end(log_end)
