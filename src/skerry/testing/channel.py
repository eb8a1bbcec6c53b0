"""Fake chat platform in a folder, and its adapter.

The platform stores the messages of people and of the gateway in its own files. They outlive a
gateway that is killed, and tests count deliveries in them, not in the store of the gateway.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import convert

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.policy.channel_access import AccessRules, DmPolicy, GroupAccess, GroupPolicy
from skerry.ports.channel import Inbox

CHANNEL: Final = ChannelId("memory")
ACCOUNT: Final = AccountId("default")
POLL_SECONDS: Final = 0.005
OPEN: Final = {
    str(CHANNEL): AccessRules(
        dm=DmPolicy.OPEN,
        allow_from=frozenset("*"),
        group=GroupPolicy.OPEN,
        groups={"*": GroupAccess(require_mention=False)},
    )
}
"""Rules that admit all senders on this platform; a test of access configures the channel."""


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """A message that the platform received from the gateway."""

    peer: str
    text: str
    in_reply_to: str
    nonce: str


@dataclass(frozen=True, slots=True)
class FakePlatform:
    """The platform in a folder, which several processes may share."""

    folder: Path

    def say(
        self,
        text: str,
        *,
        peer: str = "alice",
        message_id: str,
        kind: str = "direct",
        sender: str = "",
        **fields: Any,
    ) -> None:
        """Sends a message from a person; `sender` is the peer by default.

        `fields` are further fields of `InboundMessage`.
        """
        line: dict[str, Any] = {
            "text": text,
            "peer": peer,
            "id": message_id,
            "kind": kind,
            "sender": sender,
        }
        line["more"] = fields
        self._append("inbox.jsonl", line)

    def received(self) -> list[DeliveredMessage]:
        """Returns all messages of the gateway, in order."""
        return [DeliveredMessage(**line) for line in self._lines("received.jsonl")]

    def acknowledged(self) -> int:
        """Returns the number of messages that the adapter has acknowledged."""
        path = self.folder / "acknowledged"
        return int(path.read_text("ascii")) if path.exists() else 0

    def inbox(self) -> list[dict[str, Any]]:
        """Returns all messages of people, in order."""
        return self._lines("inbox.jsonl")

    def acknowledge(self, count: int) -> None:
        """Records that the first `count` messages need not be delivered again."""
        new = self.folder / "acknowledged.new"
        new.write_text(str(count), "ascii")
        new.replace(self.folder / "acknowledged")

    def deliver(self, delivered: DeliveredMessage) -> None:
        """Stores a message of the gateway."""
        self._append(
            "received.jsonl",
            {name: getattr(delivered, name) for name in DeliveredMessage.__slots__},
        )

    def note_typing(self, peer: str) -> None:
        """Records a typing signal."""
        self._append("typing.jsonl", {"peer": peer})

    def typed(self) -> list[str]:
        """Returns the peer of each typing signal, in order."""
        return [str(line["peer"]) for line in self._lines("typing.jsonl")]

    def _append(self, name: str, line: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self.folder / name, flags, 0o600)
        try:
            os.write(
                descriptor, json.dumps(line).encode() + b"\n"
            )  # one write: whole or not at all
        finally:
            os.close(descriptor)

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        if not path.exists():
            return []
        complete, _, _ = path.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in complete.splitlines()]


@dataclass(slots=True)
class MemoryChannel:
    """Adapter of one account on a `FakePlatform`."""

    platform: FakePlatform
    account: AccountId = ACCOUNT
    channel: ChannelId = CHANNEL
    text_limit: int = 4000
    text_unit: TextUnit = TextUnit.CHARACTERS
    settles: Settlement | None = None
    """Result for a part whose sending was interrupted; None checks the folder."""

    async def run(self, inbox: Inbox) -> None:
        """Delivers the messages of people; those not acknowledged are delivered again."""
        while True:
            count = self.platform.acknowledged()
            for number, line in enumerate(self.platform.inbox()[count:], count + 1):
                fields = {
                    "channel": self.channel,
                    "account": self.account,
                    "peer": {"kind": line["kind"], "id": line["peer"]},
                    "sender_id": line.get("sender") or line["peer"],
                    "text": line["text"],
                    "message_id": line["id"],
                    "received_at": 0,
                }
                await inbox(convert(fields | line.get("more", {}), InboundMessage))
                self.platform.acknowledge(number)
            await anyio.sleep(POLL_SECONDS)

    async def send(self, part: OutboundPart) -> Receipt:
        """Delivers a part to the platform."""
        self.platform.deliver(
            DeliveredMessage(part.to.peer.id, part.text, part.to.message_id, part.nonce)
        )
        return Receipt((part.nonce,))

    async def typing(self, to: ReplyTo) -> None:
        """Records a typing signal in the platform's log."""
        self.platform.note_typing(to.peer.id)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Searches the log of the platform, unless the test set `settles`."""
        if self.settles is not None:
            return self.settles
        arrived = any(received.nonce == part.nonce for received in self.platform.received())
        return Settlement.DELIVERED if arrived else Settlement.ABSENT
