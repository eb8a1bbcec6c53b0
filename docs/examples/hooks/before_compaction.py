"""Logs the conversations that are summarised."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeCompaction

logger = logging.getLogger(__name__)


async def log_size(event: BeforeCompaction) -> None:
    """Logs the size of the conversation."""
    logger.info("%s has %d tokens and is summarised", event.session_key, event.token_count)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_compaction(log_size)
