"""Logs the port of the gateway."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import GatewayStart

logger = logging.getLogger(__name__)


async def log_port(event: GatewayStart) -> None:
    """Logs the port."""
    logger.info("listening on port %d", event.port)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.gateway_start(log_port)
