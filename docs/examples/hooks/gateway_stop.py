"""Log that the gateway stops."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import GatewayStop

logger = logging.getLogger(__name__)


async def stopping(event: GatewayStop) -> None:
    """Note why."""
    logger.info("stopping: %s", event.reason)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.gateway_stop(stopping)
