"""Log where the gateway listens."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import GatewayStart

logger = logging.getLogger(__name__)


async def started(event: GatewayStart) -> None:
    """Note the port."""
    logger.info("listening on port %d", event.port)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.gateway_start(started)
