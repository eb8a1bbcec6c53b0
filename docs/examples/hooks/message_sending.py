"""Let nothing out that is marked as internal, and sign the rest."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import MessageSending, MessageSendingChange


async def check(event: MessageSending) -> MessageSendingChange:
    """Cancel what is internal."""
    if "INTERNAL" in event.content:
        return MessageSendingChange(cancel=True)
    return MessageSendingChange(content=f"{event.content}\n\n(sent by a program)")


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.message_sending(check)
