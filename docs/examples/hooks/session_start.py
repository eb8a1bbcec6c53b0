"""Logs each new conversation."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import SessionStart

logger = logging.getLogger(__name__)


async def log_start(event: SessionStart) -> None:
    """Logs the key and the agent of the conversation."""
    logger.info("new conversation %s with agent %s", event.session_key, event.agent_id)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.session_start(log_start)
