"""Logs the last answer in a conversation that is reset."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeReset
from skerry.sdk.messages import AssistantMessage

logger = logging.getLogger(__name__)


async def log_last_answer(event: BeforeReset) -> None:
    """Logs the last message of the assistant."""
    messages = [message for message in event.messages if isinstance(message, AssistantMessage)]
    if messages:
        logger.info("last answer in %s: %s", event.session_key, messages[-1].text)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_reset(log_last_answer)
