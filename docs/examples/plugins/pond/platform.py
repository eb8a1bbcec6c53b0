"""A chat platform of two files: one message a line in `in.txt`, the replies in `out.txt`."""

from pathlib import Path

import anyio

from skerry.sdk.channels import (
    AccountId,
    ChannelId,
    InboundMessage,
    Inbox,
    OutboundPart,
    Peer,
    PeerKind,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)


class PondChannel:
    """One account. Implements the port `ChannelAdapter`."""

    channel = ChannelId("pond")
    account = AccountId("default")
    text_limit = 1000
    text_unit = TextUnit.CHARACTERS

    def __init__(self, folder: Path) -> None:
        self._in, self._out = folder / "in.txt", folder / "out.txt"

    async def run(self, inbox: Inbox) -> None:
        """Reads new lines until cancelled; a line counts as read when `inbox` has returned."""
        taken = 0
        while True:
            lines = self._in.read_text("utf-8").splitlines() if self._in.exists() else []
            for number, line in enumerate(lines[taken:], taken):
                peer = Peer(PeerKind.DIRECT, "ada")
                message = InboundMessage(
                    channel=self.channel,
                    account=self.account,
                    peer=peer,
                    sender_id=peer.id,
                    text=line,
                    message_id=f"line-{number}",
                    received_at=0,
                )
                await inbox(message)
                taken = number + 1
            await anyio.sleep(0.1)

    async def send(self, part: OutboundPart) -> Receipt:
        """Appends the part to `out.txt`."""
        with self._out.open("a", encoding="utf-8") as file:
            file.write(f"{part.text}\n")
        return Receipt(())

    async def typing(self, to: ReplyTo) -> None:
        """Shows nothing: a file cannot show it."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns whether the part is in the file."""
        text = self._out.read_text("utf-8") if self._out.exists() else ""
        return Settlement.DELIVERED if f"{part.text}\n" in text else Settlement.ABSENT
