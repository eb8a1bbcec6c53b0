"""The encryption port of the adapter, and its replacement when the extra is not installed."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol

from skerry.channels.matrix import wire
from skerry.channels.matrix.api import MatrixApi
from skerry.infra.clock import Clock
from skerry.sdk.channel_host import Vault

REMEDY: Final = "Install the extra: pip install 'skerry[matrix]', then start the gateway again."


class EncryptionError(Exception):
    """An event can never be decrypted, or a message cannot be encrypted."""


class MissingRoomKeyError(EncryptionError):
    """The key of an event is missing, and may still arrive."""

    def __init__(self, reason: str, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(reason)


class Crypto(Protocol):
    """Encryption of one account."""

    problem: str
    """Reason why encrypted rooms are neither read nor written; empty when they are."""
    remedy: str

    @property
    def notice(self) -> tuple[str, str]:
        """Returns a problem for people, with its remedy; empty where there is none."""
        ...

    @property
    def about(self) -> str:
        """Returns the device with its fingerprint; empty where there is none."""
        ...

    async def open(self, user: str, device: str) -> None:
        """Loads or makes the keys of the device; sets `problem` when that fails."""
        ...

    async def take(self, synced: wire.Synced) -> frozenset[str]:
        """Stores messages between devices; returns the sessions whose keys arrived."""
        ...

    async def decrypt(
        self, room_id: str, event: wire.RoomEvent, *, note: bool = True
    ) -> wire.RoomEvent:
        """Returns the decrypted event; with `note` its index in the session is stored for it."""
        ...

    async def encrypt(
        self,
        room_id: str,
        members: Iterable[str],
        state: Mapping[str, Any],
        kind: str,
        content: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Returns the content of the encrypted event; shares its key with the members' devices."""
        ...


class NoCrypto:
    """Implements `Crypto` without encryption."""

    problem = "Encrypted rooms are neither read nor written: the extra matrix is not installed."
    remedy = REMEDY
    about = ""

    def __init__(self) -> None:
        self._is_met = False

    @property
    def notice(self) -> tuple[str, str]:
        """Returns the problem after the first encrypted event."""
        return (self.problem, self.remedy) if self._is_met else ("", "")

    async def open(self, user: str, device: str) -> None:
        """Does nothing."""

    async def take(self, synced: wire.Synced) -> frozenset[str]:
        """Returns no session: no key arrived."""
        del synced
        return frozenset()

    async def decrypt(
        self, room_id: str, event: wire.RoomEvent, *, note: bool = True
    ) -> wire.RoomEvent:
        """Decrypts nothing.

        Raises:
            SealedError: always.
        """
        del room_id, event, note
        self._is_met = True
        raise EncryptionError(self.problem)

    async def encrypt(
        self,
        room_id: str,
        members: Iterable[str],
        state: Mapping[str, Any],
        kind: str,
        content: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Encrypts nothing.

        Raises:
            SealedError: always.
        """
        del room_id, members, state, kind, content
        self._is_met = True
        raise EncryptionError(f"{self.problem} {self.remedy}")


def open_crypto(vault: Vault, api: MatrixApi, clock: Clock) -> Crypto:
    """Returns the encryption, or its replacement when its library is not installed."""
    if find_spec("vodozemac") is None:
        return NoCrypto()
    # Imported here, because an account without the extra does not need it.
    from skerry.channels.matrix.encryption.machine import CryptoMachine  # noqa: PLC0415 - at first use

    return CryptoMachine(vault, api, clock)
