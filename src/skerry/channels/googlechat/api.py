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
from skerry.sdk.channel_access import AccessError, AccessToken
from skerry.sdk.channel_host import AccountHttp, Fetched, Outcome
from skerry.sdk.channel_tokens import private_key, signed

NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a fetch that ended before anything was sent."""
SCOPE: Final = "https://www.googleapis.com/auth/chat.bot"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIMITED: Final = 429
_UNKNOWN_TOKEN: Final = 401
_OK: Final = range(200, 300)
_MOST_REASON: Final = 300
_MOST_FILE: Final = 65_536
_PAUSE: Final = 30.0
_SECONDS: Final = 3600


class ApiError(Exception):
    """The Chat API did not carry out a request."""

    def __init__(
        self,
        message: str,
        status: int = 0,
        retry_after: float | None = None,
        *,
        is_login: bool = False,
    ) -> None:
        self.status = status
        """Status of HTTP; 0 when no answer arrived."""
        self.retry_after = retry_after
        self.is_login = is_login
        """True when only a person can help."""
        self.is_sent = True
        """False when the request certainly did not reach the server."""
        super().__init__(message)


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
        """Returns the content of a key file of Google Cloud. Raises `ValueError` for another."""
        place = Path(path).expanduser()
        try:
            with place.open("rb") as file:
                content = msgspec.json.decode(file.read(_MOST_FILE), type=_KeyFile)
            key = private_key(content.private_key)
        except OSError as error:
            message = f"The key file {path} cannot be read: {error.strerror}."
            raise ValueError(message) from error
        except ValueError as error:  # what msgspec raises is one too
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
        """Sends a request about the resource that `path` names; returns the answer.

        Raises:
            ApiError: there is none, or it says that nothing was done.
        """
        url = f"{self._root}/v1/{quote(path, safe='/')}"
        url += f"?{urlencode(query)}" if query else ""
        data = msgspec.json.encode(body) if body is not None else b""
        fetched = await self._authorised(method, url, data)
        return self._checked(fetched)

    async def _authorised(self, method: str, url: str, body: bytes) -> Fetched:
        try:
            fetched = await self._sent(method, url, body)
            if fetched.status == _UNKNOWN_TOKEN:  # it was withdrawn before its end
                self.access.drop()
                fetched = await self._sent(method, url, body)
        except AccessError as error:
            refused = ApiError(str(error), is_login=error.is_login)
            refused.is_sent = False
            raise refused from error
        return fetched

    async def _sent(self, method: str, url: str, body: bytes) -> Fetched:
        headers = {"authorization": f"Bearer {await self.access.get()}"}
        if body:
            headers["content-type"] = "application/json"
        return await self.http.fetch(url, method=method, headers=headers, body=body, seconds=10.0)

    async def download(self, resource: str, limit: int) -> Fetched:
        """Returns a file. Raises `AccessError` where the app has no token."""
        headers = {"authorization": f"Bearer {await self.access.get()}"}
        url = f"{self._root}/v1/media/{quote(resource, safe='/=+')}?alt=media"
        return await self.http.fetch(url, headers=headers, max_bytes=limit, seconds=30.0)

    def _checked(self, fetched: Fetched) -> bytes:
        if fetched.outcome is not Outcome.ALLOW:
            error = ApiError(f"{self._root} cannot be reached: {fetched.reason}")
            error.is_sent = fetched.outcome is not Outcome.BLOCK and fetched.rule not in NOT_SENT
            raise error
        status = fetched.status or 0
        if status in _OK:
            return fetched.body
        text = fetched.headers.get("retry-after", "")
        wait = float(text) if text.isdecimal() else _PAUSE if status == _LIMITED else None
        why = f"Google Chat refused it with {status}: {_reason(fetched.body)}"
        raise ApiError(why, status, wait, is_login=status == _UNKNOWN_TOKEN)


def _reason(body: bytes) -> str:
    try:
        answer: Any = msgspec.json.decode(body)
        error = answer["error"]
        text = f"{error['status']}: {error['message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        text = "no description"
    return " ".join(text.split())[:_MOST_REASON]
