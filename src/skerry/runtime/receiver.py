"""Keeps one account receiving, whatever its adapter or its platform does."""

from skerry.infra.supervise import keep_running
from skerry.model.errors import BusyError
from skerry.ports.channel import ChannelAdapter, Inbox


async def receive(adapter: ChannelAdapter, inbox: Inbox) -> None:
    """Runs the adapter until the gateway stops; one that fails or ends starts again."""

    async def listen() -> bool:
        try:
            await adapter.run(inbox)
        except BusyError:
            return False  # the gateway stops; what was not acknowledged comes at the next start
        return True

    await keep_running(listen, f"{adapter.channel}/{adapter.account}")
