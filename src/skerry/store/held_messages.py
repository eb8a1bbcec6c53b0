"""Platform messages that are accepted and wait for more messages of the same sender."""

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Struct

from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.model.origin import Origin
from skerry.store.unit import Reader, Unit


class HeldMessage(Struct, frozen=True):
    """One waiting message."""

    message: InboundMessage
    to: ReplyTo
    author: Origin
    run_id: RunId
    """Run id in the ledger row of the message."""

    @property
    def sender(self) -> str:
        """Returns the key of its sender: only messages with the same key are joined.

        An id is unique only on its platform, and the joined message has one author.
        """
        message = self.message
        return f"{message.channel}/{message.account}/{self.author}/{message.sender_id}"


_encode = msgspec.json.encode
_decode: Final = msgspec.json.Decoder(HeldMessage).decode


def add(unit: Unit, key: str, message: HeldMessage) -> None:
    """Adds a message to those of its conversation and sender."""
    unit.execute(
        "INSERT INTO held_message (session_key, sender, body) VALUES (?, ?, ?)",
        (key, message.sender, _encode(message)),
    )


def read(reader: Reader, key: str, sender: str) -> list[tuple[int, HeldMessage]]:
    """Returns number and message of a sender's waiting messages in a conversation, oldest first."""
    rows = reader.all(
        "SELECT serial, body FROM held_message WHERE session_key = ? AND sender = ?"
        " ORDER BY serial",
        (key, sender),
    )
    return [(int(serial), _decode(body)) for serial, body in rows]


def senders(reader: Reader) -> list[tuple[str, str]]:
    """Returns (session key, sender) of all waiting messages, in the order of the first of each."""
    rows = reader.all(
        "SELECT session_key, sender FROM held_message GROUP BY session_key, sender"
        " ORDER BY min(serial)"
    )
    return [(str(key), str(sender)) for key, sender in rows]


def drop(unit: Unit, run_ids: Collection[str]) -> None:
    """Deletes messages by their run ids. Decodes every row, of which there are few."""
    rows = unit.all("SELECT serial, body FROM held_message")
    serials = [(serial,) for serial, body in rows if _decode(body).run_id in run_ids]
    unit.executemany("DELETE FROM held_message WHERE serial = ?", serials)


def take(unit: Unit, key: str, sender: str, last: int) -> None:
    """Deletes the messages up to number `last`, whose run the unit accepts."""
    unit.execute(
        "DELETE FROM held_message WHERE session_key = ? AND sender = ? AND serial <= ?",
        (key, sender, last),
    )
