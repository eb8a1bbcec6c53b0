"""OAuth 2.0 access tokens with which an account authenticates to its platform."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import anyio
import msgspec
from msgspec import Struct

from skerry.infra.clock import Clock
from skerry.net.safe_fetch import MAX_BYTES
from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched, Outcome

__all__ = ["AccessError", "AccessToken", "checked"]
EARLY_MS: Final = 300_000
"""Time before its expiry at which a token is replaced."""
_MIN_MS: Final = 30_000
_MAX_REASON: Final = 300
_OK: Final = range(200, 300)
_LOGIN: Final = frozenset({400, 401, 403})
_UNAUTHORIZED: Final = 401
_LIMITED: Final = 429
_REFUSED: Final = range(400, 500)
_TEMPORARY: Final = frozenset({408, 412, 425, 429})


class AccessError(PlatformError):
    """The server did not return an access token."""

    def __init__(self, message: str, *, is_login: bool = False) -> None:
        super().__init__(message, is_login=is_login, is_sent=False)


class _Answer(Struct, frozen=True):
    access_token: str = ""
    refresh_token: str = ""
    expires_in: int = 3600
    error: str = ""
    error_description: str = ""


_answers = msgspec.json.Decoder(_Answer, strict=False)


class AccessToken:
    """The access token of one account, requested when needed and cached until near its expiry."""

    def __init__(
        self,
        http: AccountHttp,
        url: str,
        form: Callable[[], Mapping[str, str]],
        clock: Clock,
        keep: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Stores the parts.

        Args:
            http: HTTP client of the account.
            url: Token endpoint.
            form: Returns the fields of the token request.
            clock: Source of the time.
            keep: Stores a new refresh token. It is awaited before the access token is used, since
                the provider may have revoked the old refresh token.

        """
        self._keep = keep
        self._http = http
        self._url = url
        self._form = form
        self._clock = clock
        self._lock = anyio.Lock()
        self._text = ""
        self._until = 0

    async def get(self) -> str:
        """Returns a valid token; requests a new one near the expiry. Raises `AccessError`."""
        async with self._lock:
            if not self._text or self._clock.now_ms() >= self._until:
                answer = await self._request_token()
                if answer.refresh_token and self._keep is not None:
                    await self._keep(answer.refresh_token)
                self._text = answer.access_token
                lasting = max(answer.expires_in * 1000 - EARLY_MS, _MIN_MS)
                self._until = self._clock.now_ms() + lasting
            return self._text

    def drop(self) -> None:
        """Drops the cached token, such as after a server refused it."""
        self._text = ""

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        body: bytes = b"",
        max_bytes: int = MAX_BYTES,
        seconds: float = 10.0,
    ) -> Fetched:
        """Sends a request with the token, and once more with a new one after status 401.

        A `body` is sent as JSON. The arguments are those of `AccountHttp.fetch`.

        Raises:
            AccessError: no token could be obtained.
        """

        async def send() -> Fetched:
            headers = {"authorization": f"Bearer {await self.get()}"}
            if body:
                headers["content-type"] = "application/json"
            return await self._http.fetch(
                url, method=method, headers=headers, body=body, max_bytes=max_bytes, seconds=seconds
            )

        fetched = await send()
        if fetched.status == _UNAUTHORIZED:  # the token was revoked before its expiry
            self.drop()
            fetched = await send()
        return fetched

    async def _request_token(self) -> _Answer:
        body = urlencode(self._form()).encode()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        fetched = await self._http.fetch(
            self._url, method="POST", headers=kind, body=body, max_bytes=65_536, seconds=8.0
        )
        if fetched.outcome is not Outcome.ALLOW:
            raise AccessError(f"{self._url} cannot be reached: {fetched.reason}")
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            answer = _Answer()
        if fetched.status in _OK and answer.access_token:
            return answer
        reason = " ".join(f"{answer.error}: {answer.error_description}".split())[:_MAX_REASON]
        is_login = fetched.status in _LOGIN and bool(answer.error)
        message = f"{self._url} returned no access token ({fetched.status}) {reason}"
        raise AccessError(message, is_login=is_login)


def checked(fetched: Fetched, server: str, *, key: str, pause: float) -> bytes:
    """Returns the body of a successful response.

    Args:
        fetched: Result of a request.
        server: Name of the server, for the message.
        key: Key of the error code in `error` of the JSON of an error response.
        pause: Seconds to wait after status 429 without `Retry-After`.

    Raises:
        PlatformError: the request failed, or the status is not 2xx.
    """
    check_reached(fetched, server)
    status = fetched.status or 0
    if status in _OK:
        return fetched.body
    raise PlatformError(
        f"{server} refused the request with {status}: {_reason(fetched.body, key)}",
        status=status,
        retry_after=named_wait(fetched) or (pause if status == _LIMITED else None),
        is_login=status == _UNAUTHORIZED,
        is_sent=status not in _TEMPORARY,
        is_final=status in _REFUSED and status not in _TEMPORARY,
    )


def _reason(body: bytes, key: str) -> str:
    try:
        error = msgspec.json.decode(body)["error"]
        text = f"{error[key]}: {error['message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        text = "no description"
    return " ".join(text.split())[:_MAX_REASON]
