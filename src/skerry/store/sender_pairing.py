"""Pairing requests of platform senders, and the owner's decisions about them."""

from typing import Final

import msgspec
from msgspec import Struct

from skerry.model.errors import RequestError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.model.message import storable
from skerry.store import audit
from skerry.store.unit import Reader, Row, Unit

LASTS_MS: Final = 3_600_000
"""Time for which a code is valid."""
MAX_PENDING: Final = 5
"""Limit on the waiting requests of one account."""
PROTECTED_MS: Final = 600_000
"""Time for which a waiting request cannot be displaced by that of another sender."""
_MAX_NAME: Final = 128
_encode = msgspec.json.encode
_destinations = msgspec.json.Decoder(ReplyTo)
_REQUEST: Final = (
    "channel, account, sender_id, code, sender_name, sender_username, destination,"
    " created_at, seen_at, expires_at"
)
_SENDER: Final = "channel, account, sender_id, sender_name, sender_username, rejected, decided_at"


class NoRequestError(RequestError):
    """No waiting request has the code."""

    code = "pairing.no_request"
    remedy = (
        "`skerry pairing list` shows the waiting requests. A sender whose code has expired gets a"
        " new code for the next message."
    )

    def __init__(self, code: str) -> None:
        super().__init__(f"No pairing request has the code {code!r}.")


class PairingRequest(Struct, frozen=True):
    """Request of a sender that waits for the owner. Times are milliseconds since 1970."""

    channel: ChannelId
    account: AccountId
    sender_id: str
    code: str
    sender_name: str
    """Name, chosen by the sender."""
    sender_username: str
    to: ReplyTo
    """Chat of the sender's message."""
    created_at: int
    seen_at: int
    expires_at: int


class PairedSender(Struct, frozen=True):
    """The owner's decision about a sender."""

    channel: ChannelId
    account: AccountId
    sender_id: str
    sender_name: str
    sender_username: str
    rejected: bool
    """True for a refused sender: messages are ignored, and no code is sent."""
    decided_at: int


def ask(unit: Unit, message: InboundMessage, to: ReplyTo, code: str, now: int) -> bool:
    """Adds a pairing request for the sender of a message; returns whether it is new.

    Returns False for a sender with a waiting request or a decision. Of `MAX_PENDING` requests of
    the account the oldest is displaced if it has waited for `PROTECTED_MS`; until then False is
    returned. So strangers keep nobody from asking for longer, displace no request that the owner
    has had no time to see, and cannot make the account send many messages.
    """
    unit.execute("DELETE FROM pairing_request WHERE expires_at <= ?", (now,))
    sender = (message.channel, message.account, message.sender_id)
    waits = unit.execute(
        "UPDATE pairing_request SET seen_at = ?"
        " WHERE channel = ? AND account = ? AND sender_id = ?",
        (now, *sender),
    )
    if waits or find(unit, message) is not None:
        return False
    waiting = unit.all(
        "SELECT sender_id, created_at FROM pairing_request WHERE channel = ? AND account = ?"
        " ORDER BY created_at, code",
        sender[:2],
    )
    if len(waiting) >= MAX_PENDING:
        oldest, created_at = waiting[0]
        if created_at > now - PROTECTED_MS:
            return False
        unit.execute(
            "DELETE FROM pairing_request WHERE channel = ? AND account = ? AND sender_id = ?",
            (*sender[:2], oldest),
        )
    unit.execute(
        f"INSERT INTO pairing_request ({_REQUEST}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant columns
        (
            *sender,
            code,
            _named(message.sender_name),
            _named(message.sender_username),
            _encode(to),
            now,
            now,
            now + LASTS_MS,
        ),
    )
    return True


def find(reader: Reader, message: InboundMessage) -> PairedSender | None:
    """Returns the decision about the sender of a message; None without one."""
    row = reader.one(
        f"SELECT {_SENDER} FROM paired_sender"  # noqa: S608 - constant columns
        " WHERE channel = ? AND account = ? AND sender_id = ?",
        (message.channel, message.account, message.sender_id),
    )
    return None if row is None else _sender(row)


def requests(
    reader: Reader, now: int, channel: str = "", account: str = ""
) -> list[PairingRequest]:
    """Returns the waiting requests, oldest first, optionally of one channel and account."""
    rows = reader.all(
        f"SELECT {_REQUEST} FROM pairing_request WHERE expires_at > ?"  # noqa: S608 - constant columns
        " AND (channel = ? OR ? = '') AND (account = ? OR ? = '') ORDER BY created_at, code",
        (now, channel, channel, account, account),
    )
    return [_request(row) for row in rows]


def senders(reader: Reader, channel: str = "", account: str = "") -> list[PairedSender]:
    """Returns the decisions by sender id, optionally of one channel and account."""
    rows = reader.all(
        f"SELECT {_SENDER} FROM paired_sender"  # noqa: S608 - constant columns
        " WHERE (channel = ? OR ? = '') AND (account = ? OR ? = '')"
        " ORDER BY channel, account, sender_id",
        (channel, channel, account, account),
    )
    return [_sender(row) for row in rows]


def decide(
    unit: Unit, code: str, scope: tuple[str, str], now: int, by: str, *, rejected: bool
) -> PairingRequest:
    """Stores the owner's decision about the request with the code; each can be decided once.

    Args:
        unit: Unit of the store.
        code: The code that the sender got, in any case.
        scope: Channel and account of the request; an empty one is any.
        now: Milliseconds since 1970.
        by: Name of the person or client that decides.
        rejected: True to refuse the sender.

    Raises:
        NoRequestError: no waiting request has this code, or two have it.
    """
    folded = code.strip().upper()
    waiting = [request for request in requests(unit, now, *scope) if request.code == folded]
    if len(waiting) != 1:
        raise NoRequestError(code)
    request = waiting[0]
    sender = (request.channel, request.account, request.sender_id)
    unit.execute(
        "DELETE FROM pairing_request WHERE channel = ? AND account = ? AND sender_id = ?", sender
    )
    unit.execute(
        f"INSERT INTO paired_sender ({_SENDER}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constant columns
        " ON CONFLICT (channel, account, sender_id) DO UPDATE SET"
        " sender_name = excluded.sender_name, sender_username = excluded.sender_username,"
        " rejected = excluded.rejected, decided_at = excluded.decided_at",
        (*sender, request.sender_name, request.sender_username, rejected, now),
    )
    kind = "pairing.rejected" if rejected else "pairing.approved"
    _record(unit, kind, request.channel, request.account, request.sender_id, by, now)
    return request


def remove(unit: Unit, sender: tuple[str, str, str], by: str, now: int) -> bool:
    """Deletes the decision about a sender (channel, account, id); returns False without one."""
    removed = unit.execute(
        "DELETE FROM paired_sender WHERE channel = ? AND account = ? AND sender_id = ?", sender
    )
    if removed:
        _record(unit, "pairing.removed", *sender, by, now)
    return bool(removed)


def _record(  # noqa: PLR0913, PLR0917 - the facts of one line of the log
    unit: Unit, kind: str, channel: str, account: str, sender: str, by: str, now: int
) -> None:
    facts = {"channel": channel, "account": account, "sender": sender, "by": by}
    audit.append(unit, now, kind, facts)


def _named(text: str) -> str:
    return storable(text[:_MAX_NAME])


def _request(row: Row) -> PairingRequest:
    channel, account, sender, code, name, username, to, created_at, seen_at, expires_at = row
    destination = _destinations.decode(to)
    return PairingRequest(
        channel, account, sender, code, name, username, destination, created_at, seen_at, expires_at
    )


def _sender(row: Row) -> PairedSender:
    channel, account, sender, name, username, rejected, decided_at = row
    return PairedSender(channel, account, sender, name, username, bool(rejected), decided_at)
