"""Keys of the account's device: makes, uploads and replenishes them."""

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

import msgspec
from msgspec import Struct, field
from vodozemac import Account, Curve25519PublicKey

from skerry.channels.matrix.api import CLIENT, MatrixApi
from skerry.channels.matrix.encryption.cross_signing import CrossSigning
from skerry.channels.matrix.encryption.crypto_store import DEVICE, CryptoStore, OwnDevice
from skerry.channels.matrix.encryption.signing import signed
from skerry.sdk.channel_errors import PlatformError

logger = logging.getLogger(__name__)

OLM_V1: Final = "m.olm.v1.curve25519-aes-sha2"
MEGOLM_V1: Final = "m.megolm.v1.aes-sha2"
SIGNED: Final = "signed_curve25519"


class _WithFallback(Protocol):
    """Methods of `Account` that are missing in the types of its package."""

    @property
    def fallback_key(self) -> Mapping[str, Curve25519PublicKey]: ...

    def generate_fallback_key(self) -> None: ...


class KeysLostError(Exception):
    """Error: the homeserver has other keys of this device, so that it cannot be used any more."""


class _Uploaded(Struct, frozen=True):
    one_time_key_counts: dict[str, int] = field(default_factory=dict)


class _Queried(Struct, frozen=True):
    device_keys: dict[str, dict[str, Any]] = field(default_factory=dict)


class OwnKeys:
    """Keys of the device of the access token."""

    def __init__(self, store: CryptoStore, api: MatrixApi) -> None:
        self._store = store
        self._api = api
        self._waiting: dict[str, Any] | None = None
        """New keys that certainly did not reach the homeserver."""
        self.user = ""
        self.device = ""
        self.curve = ""
        self.ed = ""
        self.is_signed = False
        """True when the device is signed by the account's cross-signing keys."""

    async def open(self, user: str, device: str) -> None:
        """Reads the keys of the device, or makes them; uploads them once.

        Raises:
            KeysLostError: it had keys, which are lost or older than what was done with them.
            PlatformError: the homeserver cannot be asked.
        """
        vault = await self._store.vault.open()
        self._store.key = vault.key
        self.user, self.device = user, device
        device_row = await self._store.read(DEVICE, "", OwnDevice)
        if device_row is None or (device_row.user, device_row.device) != (user, device):
            if await self._is_known():
                raise KeysLostError(f"its keys of the device {device} are lost")
            if device_row is not None or vault.is_behind:
                self._store.key = (await self._store.vault.renew()).key
            device_row = OwnDevice(user, device, self._pickled(Account()))
            await self._store.write([(DEVICE, "", device_row)])
        elif vault.is_new:
            raise KeysLostError(f"the file with the key of the device {device} is lost")
        elif vault.is_behind:
            raise KeysLostError(f"the database is older than the last use of the device {device}")
        account = self._account(device_row)
        self.curve = account.curve25519_key.to_base64()
        self.ed = account.ed25519_key.to_base64()
        if not device_row.uploaded:
            await self._upload_device(device_row, account)
        await self._sign_device()

    async def _is_known(self) -> bool:
        """Returns whether the homeserver has keys of the device."""
        body = {"device_keys": {self.user: [self.device]}}
        answer = await self._api.post(f"{CLIENT}/keys/query", body)
        device_keys = msgspec.json.decode(answer, type=_Queried).device_keys
        return self.device in device_keys.get(self.user, {})

    async def _upload_device(self, device_row: OwnDevice, account: Account) -> None:
        keys = {
            "user_id": self.user,
            "device_id": self.device,
            "algorithms": [OLM_V1, MEGOLM_V1],
            "keys": {f"curve25519:{self.device}": self.curve, f"ed25519:{self.device}": self.ed},
        }
        body = {"device_keys": signed(keys, account, self.user, self.device)}
        answer = await self._api.post(f"{CLIENT}/keys/upload", body)
        uploaded = OwnDevice(device_row.user, device_row.device, device_row.pickle, uploaded=True)
        await self._store.write([(DEVICE, "", uploaded)])
        logger.info("matrix: the device %s of %s has its keys", self.device, self.user)
        counts = msgspec.json.decode(answer, type=_Uploaded).one_time_key_counts
        await self._replenish(counts, ())

    async def _sign_device(self) -> None:
        """Signs the device with the identity of its account, once in each process."""
        self.is_signed = await CrossSigning(self._api, self.user, self._store.key).sign(self.device)

    async def account(self) -> Account:
        """Returns the stored Olm account; the caller must hold the lock."""
        device_row = await self._store.read(DEVICE, "", OwnDevice)
        if device_row is None:
            raise KeysLostError(f"the keys of the device {self.device} are lost")
        return self._account(device_row)

    def record(self, account: Account) -> tuple[str, str, Struct]:
        """Returns the record of an account that was changed."""
        pickle = self._pickled(account)
        return DEVICE, "", OwnDevice(self.user, self.device, pickle, uploaded=True)

    async def replenish(
        self, counts: Mapping[str, int] | None, fallbacks: tuple[str, ...] | None
    ) -> None:
        """Uploads one-time keys when half of them are used up.

        The private keys are kept before the upload, and a key is never uploaded twice: two that
        began with the same could not both be read. What a lost answer costs is 50 unused keys. An
        upload that fails is logged; the next sync gives the occasion for another.
        """
        async with self._store.lock:
            await self._replenish(counts, fallbacks)

    async def _replenish(
        self, counts: Mapping[str, int] | None, fallbacks: tuple[str, ...] | None
    ) -> None:
        if self._waiting is None and counts is not None:
            self._waiting = await self._new_keys(counts.get(SIGNED, 0), fallbacks)
        if not self._waiting:
            self._waiting = None
            return
        try:
            await self._api.post(f"{CLIENT}/keys/upload", self._waiting)
        except PlatformError as error:
            logger.warning("matrix: keys of %s are not uploaded: %s", self.device, error)
            if error.is_sent and error.retry_after is None:
                self._waiting = None
        else:
            self._waiting = None

    async def _new_keys(self, count: int, fallbacks: tuple[str, ...] | None) -> dict[str, Any]:
        account = await self.account()
        max_keys = account.max_number_of_one_time_keys
        body: dict[str, Any] = {}
        if count < max_keys // 2:
            account.generate_one_time_keys(max_keys - count)
            keys = {name: key.to_base64() for name, key in account.one_time_keys.items()}
            body["one_time_keys"] = self._signed(account, keys)
        if fallbacks is not None and SIGNED not in fallbacks:
            with_fallback = cast("_WithFallback", account)
            with_fallback.generate_fallback_key()
            keys = {name: key.to_base64() for name, key in with_fallback.fallback_key.items()}
            body["fallback_keys"] = self._signed(account, keys, fallback=True)
        if body:
            account.mark_keys_as_published()
            await self._store.write([self.record(account)])
        return body

    def _signed(
        self, account: Account, keys: Mapping[str, str], **flags: bool
    ) -> dict[str, dict[str, Any]]:
        return {
            f"{SIGNED}:{name}": signed({"key": key, **flags}, account, self.user, self.device)
            for name, key in keys.items()
        }

    def _account(self, device_row: OwnDevice) -> Account:
        try:
            return Account.from_pickle(device_row.pickle, self._store.key)
        except ValueError as error:
            raise KeysLostError(f"its keys of the device {self.device} are unreadable") from error

    def _pickled(self, account: Account) -> str:
        return account.pickle(self._store.key)
