"""Log the last words of a conversation that is reset."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeReset
from skerry.sdk.messages import AssistantMessage

logger = logging.getLogger(__name__)


async def look_back(event: BeforeReset) -> None:
    """Note what the assistant said last."""
    said = [one.text for one in event.messages if isinstance(one, AssistantMessage)]
    if said:
        logger.info("last words in %s: %s", event.session_key, said[-1])


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.before_reset(look_back)
