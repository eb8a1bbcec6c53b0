"""Log each conversation that ended."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import SessionEnd

logger = logging.getLogger(__name__)


async def ended(event: SessionEnd) -> None:
    """Note how much was said, and why it ended."""
    count, why = event.message_count, event.reason
    logger.info("conversation %s ended after %d messages: %s", event.session_key, count, why)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.session_end(ended)
