"""Log each new conversation."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import SessionStart

logger = logging.getLogger(__name__)


async def began(event: SessionStart) -> None:
    """Note whose it is."""
    logger.info("new conversation %s with agent %s", event.session_key, event.agent_id)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.session_start(began)
