"""Logs the duration and the outcome of each run."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AgentEnd

logger = logging.getLogger(__name__)


async def log_run(event: AgentEnd) -> None:
    """Logs the figures; the person does not wait for this."""
    outcome = "answered" if event.success else f"failed: {event.error}"
    logger.info("%s in %d ms, %d messages", outcome, event.duration_ms, len(event.messages))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.agent_end(log_run)
