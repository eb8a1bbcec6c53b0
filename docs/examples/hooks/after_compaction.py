"""Log how much a summary saved."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AfterCompaction

logger = logging.getLogger(__name__)


async def look(event: AfterCompaction) -> None:
    """Note it."""
    logger.info(
        "%s: %d messages became %d characters",
        event.session_key,
        event.compacted_count,
        len(event.summary),
    )


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.after_compaction(look)
