"""Logs how much a summary saved."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AfterCompaction

logger = logging.getLogger(__name__)


async def log_summary(event: AfterCompaction) -> None:
    """Logs the numbers of messages and characters."""
    logger.info(
        "%s: %d messages became %d characters",
        event.session_key,
        event.compacted_count,
        len(event.summary),
    )


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.after_compaction(log_summary)
