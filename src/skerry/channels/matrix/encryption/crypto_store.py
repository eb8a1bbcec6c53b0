"""The stored state of encryption.

None of it is cached in memory: each record is read, changed and written under one lock, and a
message is sent after the COMMIT. So a kill at any moment leaves no state that is older than what
others have received.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import anyio
import msgspec
from msgspec import Struct, field

from skerry.sdk.channel_host import Vault, VaultEntry

DEVICE: Final = "device"
OLM: Final = "olm"
PEOPLE: Final = "people"
INBOUND: Final = "inbound"
OUTBOUND: Final = "outbound"
RECEIVED: Final = "received"
MAX_RECORDS: Final = {INBOUND: 1_000, OLM: 10_000, PEOPLE: 5_000, RECEIVED: 500, OUTBOUND: 2_000}
"""Number of the newest records that are stored by kind; of `INBOUND` for each sender."""
R = TypeVar("R", bound=Struct)


class OwnDevice(Struct, frozen=True):
    """The device of the account: its name at the homeserver, and its keys."""

    user: str
    device: str
    pickle: str
    uploaded: bool = False
    """True when the homeserver has its keys."""


class OlmSession(Struct, frozen=True):
    """One session with a device."""

    pickle: str
    used_at: int
    """Time when a message was last decrypted with it, or when it was made."""


class OlmSessions(Struct, frozen=True):
    """The sessions with one device, the one to send with first."""

    sessions: tuple[OlmSession, ...] = ()


class PeerDevice(Struct, frozen=True):
    """A device of another user, with the keys that were received first."""

    curve: str
    ed: str
    gone: bool = False
    """True when the homeserver no longer lists it."""


class Person(Struct, frozen=True):
    """The devices of a user by their ids."""

    devices: dict[str, PeerDevice] = field(default_factory=dict)


class InboundSession(Struct, frozen=True):
    """A session of a room, with which one device encrypts its messages."""

    pickle: str
    sender: str
    """User whose device sent the key."""
    sender_key: str
    seen: dict[int, str] = field(default_factory=dict)
    """Events by their index in the session: each index has one."""


class OutboundSession(Struct, frozen=True):
    """The session with which messages to a room are encrypted."""

    pickle: str
    made_at: int
    used: int = 0
    shared: dict[str, dict[str, str]] = field(default_factory=dict)
    """Curve25519 keys of devices that have it, by user and device."""


def inbound_of(sender: str) -> str:
    """Returns the kind of a sender's sessions, so that a sender displaces only own sessions."""
    return f"{INBOUND} {sender}"


class CryptoStore:
    """The records of one account."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.key = b""
        """Key under which sessions are pickled; set when the vault was opened."""
        self.lock = anyio.Lock()

    async def read(self, kind: str, name: str, type_: type[R]) -> R | None:
        """Returns a record; None when it is missing or cannot be decoded."""
        raw = await self.vault.read(kind, name)
        try:
            return msgspec.json.decode(raw, type=type_) if raw else None
        except msgspec.DecodeError:
            return None

    async def write(self, records: Sequence[tuple[str, str, Struct]]) -> None:
        """Writes records in one COMMIT."""
        vault_records = [
            VaultEntry(kind, name, msgspec.json.encode(record)) for kind, name, record in records
        ]
        if vault_records:
            bases = {record.kind: record.kind.partition(" ")[0] for record in vault_records}
            limits = {
                kind: MAX_RECORDS[base] for kind, base in bases.items() if base in MAX_RECORDS
            }
            await self.vault.write(vault_records, limits)
