"""Log which conversations grow long."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeCompaction

logger = logging.getLogger(__name__)


async def look(event: BeforeCompaction) -> None:
    """Note it."""
    logger.info("%s has %d tokens and is summarised", event.session_key, event.token_count)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.before_compaction(look)
