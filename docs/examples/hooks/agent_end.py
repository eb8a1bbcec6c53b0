"""Log how long each run took and how it ended."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AgentEnd

logger = logging.getLogger(__name__)


async def ended(event: AgentEnd) -> None:
    """Note the figures; the person does not wait for this."""
    outcome = "answered" if event.success else f"failed: {event.error}"
    logger.info("%s in %d ms, %d messages", outcome, event.duration_ms, len(event.messages))


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.agent_end(ended)
