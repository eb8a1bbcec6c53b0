"""Access tokens of a mailbox (XOAUTH2), and refresh tokens that the provider replaces."""

import hashlib
import os
from collections.abc import Mapping
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from skerry.config.channel_oauth import OAuthConfig
from skerry.config.channels import revealed
from skerry.sdk.access_tokens import AccessError, AccessToken
from skerry.sdk.channel_host import AccountHttp, ChannelHost, VaultEntry

_KIND: Final = "oauth"
_NAME: Final = "refresh"
_NONCE: Final = 12


class _Replaced(Struct, frozen=True):
    """The refresh token that took the place of the configured one."""

    of: str
    """Hash of the configured token: after a new login the stored one does not count."""
    token: str


_replaced = msgspec.json.Decoder(_Replaced)


class MailTokens:
    """The tokens of one mailbox. The newest refresh token is stored encrypted in the vault."""

    def __init__(self, http: AccountHttp, settings: OAuthConfig, host: ChannelHost) -> None:
        self._settings = settings
        self._vault = host.vault
        url = settings.addresses.token_url
        self._access = AccessToken(http, url, self._form, host.clock, self._keep)
        self._configured = revealed(settings.refresh_token)
        self._refresh = ""

    async def get(self) -> str:
        """Returns a valid access token. Raises `AccessError`."""
        if not self._refresh:
            self._refresh = await self._stored() or self._configured
        try:
            return await self._access.get()
        except AccessError as error:
            if not error.is_login or self._refresh == self._configured:
                raise
        # The stored token may be of a database that was restored.
        self._refresh = self._configured
        return await self._access.get()

    def drop(self) -> None:
        """Drops an access token that a server refused."""
        self._access.drop()

    def _form(self) -> Mapping[str, str]:
        secret = revealed(self._settings.client_secret)
        return {
            "grant_type": "refresh_token",
            "refresh_token": self._refresh,
            "client_id": self._settings.client_id,
            **({"client_secret": secret} if secret else {}),
        }

    @property
    def _hash(self) -> str:
        return hashlib.sha256(self._configured.encode()).hexdigest()

    async def _stored(self) -> str:
        raw = await self._vault.read(_KIND, _NAME)
        if not raw:
            return ""
        cipher = AESGCM((await self._vault.open()).key)
        try:
            record = _replaced.decode(cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _KIND.encode()))
        except (InvalidTag, msgspec.DecodeError, ValueError):
            return ""
        return record.token if record.of == self._hash else ""

    async def _keep(self, token: str) -> None:
        """Stores a refresh token that the provider gave in place of the last one."""
        if token == self._refresh:
            return
        cipher, nonce = AESGCM((await self._vault.open()).key), os.urandom(_NONCE)
        record = msgspec.json.encode(_Replaced(self._hash, token))
        sealed = nonce + cipher.encrypt(nonce, record, _KIND.encode())
        await self._vault.write([VaultEntry(_KIND, _NAME, sealed)])
        self._refresh = token
