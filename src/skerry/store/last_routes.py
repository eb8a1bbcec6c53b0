"""The chat in which the owner last wrote in each conversation: the target `last` of deliveries."""

import msgspec
from msgspec.structs import replace

from skerry.model.ids import AgentId, SessionKey
from skerry.model.inbound import ReplyTo
from skerry.store.unit import Reader, Unit

_encode = msgspec.json.encode
_destinations = msgspec.json.Decoder(ReplyTo)


def note(unit: Unit, key: SessionKey, to: ReplyTo, now: int) -> None:
    """Stores the chat of the owner's last message in a conversation."""
    destination = _encode(replace(to, message_id="", quote=None))
    unit.execute(
        "INSERT INTO route (session_key, agent, destination, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session_key) DO UPDATE SET destination = excluded.destination,"
        " at = excluded.at",
        (str(key), key.agent, destination, now),
    )


def of(reader: Reader, key: SessionKey) -> ReplyTo | None:
    """Returns the chat in which the owner last wrote in a conversation; None without one."""
    row = reader.one("SELECT destination FROM route WHERE session_key = ?", (str(key),))
    return _destinations.decode(row[0]) if row else None


def last(reader: Reader, agent: AgentId) -> ReplyTo | None:
    """Returns the direct chat in which the owner last wrote to the agent; None without one."""
    row = reader.one(
        "SELECT destination FROM route WHERE agent = ? ORDER BY at DESC, session_key LIMIT 1",
        (agent,),
    )
    return _destinations.decode(row[0]) if row else None
