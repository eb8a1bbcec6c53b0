"""Cancels blocks that are marked as internal, and signs the others."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import MessageSending, MessageSendingChange


async def check(event: MessageSending) -> MessageSendingChange:
    """Cancels an internal block; signs any other."""
    if "INTERNAL" in event.content:
        return MessageSendingChange(cancel=True)
    return MessageSendingChange(content=f"{event.content}\n\n(sent by a program)")


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.message_sending(check)
