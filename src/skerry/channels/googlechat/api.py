"""Requests to the Chat API as a service account, and its errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import Struct

from skerry.channels.googlechat.config import GoogleChatAccount
from skerry.infra.clock import Clock
from skerry.sdk.access_tokens import AccessToken, checked
from skerry.sdk.channel_host import AccountHttp, Fetched
from skerry.sdk.channel_tokens import private_key, signed

SCOPE: Final = "https://www.googleapis.com/auth/chat.bot"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MAX_FILE: Final = 65_536
_PAUSE: Final = 30.0
_SECONDS: Final = 3600


class _KeyFile(Struct, frozen=True):
    client_email: str
    private_key: str
    private_key_id: str = ""


class ServiceAccount(Struct, frozen=True):
    """A service account and its key."""

    email: str
    key_id: str
    key: rsa.RSAPrivateKey

    @classmethod
    def read(cls, path: str) -> "ServiceAccount":
        """Returns the account of a key file of Google Cloud. Raises `ValueError` for others."""
        key_file = Path(path).expanduser()
        try:
            with key_file.open("rb") as file:
                content = msgspec.json.decode(file.read(_MAX_FILE), type=_KeyFile)
            key = private_key(content.private_key)
        except OSError as error:
            message = f"The key file {path} cannot be read: {error.strerror}."
            raise ValueError(message) from error
        except ValueError as error:  # errors of msgspec are such too
            message = f"{path} is no key file (JSON) of a service account: {error}"
            raise ValueError(message) from error
        return cls(content.client_email, content.private_key_id, key)


class ChatApi:
    """One app."""

    def __init__(self, settings: GoogleChatAccount, sender: ServiceAccount, clock: Clock) -> None:
        self._root = str(settings.api_root).rstrip("/")
        self._token_url = str(settings.token_url)
        self.http = AccountHttp([self._root, self._token_url, str(settings.keys_root)])
        self.name = sender.email
        self._sender = sender
        self._clock = clock
        self.access = AccessToken(self.http, self._token_url, self._form, clock)

    def _form(self) -> Mapping[str, str]:
        now = self._clock.now_ms() // 1000
        claims = {
            "iss": self._sender.email,
            "scope": SCOPE,
            "aud": self._token_url,
            "iat": now,
            "exp": now + _SECONDS,
        }
        assertion = signed(claims, self._sender.key, self._sender.key_id)
        return {"grant_type": GRANT, "assertion": assertion}

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Sends a request about the resource that `path` names; returns the response body.

        Raises:
            PlatformError: there is no response, or it is an error.
        """
        url = f"{self._root}/v1/{quote(path, safe='/')}"
        url += f"?{urlencode(query)}" if query else ""
        data = msgspec.json.encode(body) if body is not None else b""
        fetched = await self.access.fetch(url, method=method, body=data)
        return checked(fetched, "Google Chat", key="status", pause=_PAUSE)

    async def download(self, resource: str, limit: int) -> Fetched:
        """Returns a file. Raises `AccessError` when the app gets no token."""
        url = f"{self._root}/v1/media/{quote(resource, safe='/=+')}?alt=media"
        return await self.access.fetch(url, max_bytes=limit, seconds=30.0)
