"""Logs that the gateway stops."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import GatewayStop

logger = logging.getLogger(__name__)


async def log_reason(event: GatewayStop) -> None:
    """Logs the reason."""
    logger.info("stopping: %s", event.reason)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.gateway_stop(log_reason)
