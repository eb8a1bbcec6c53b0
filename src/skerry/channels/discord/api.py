"""Requests to Discord's HTTP API, its errors, and the rate limits that it names."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from skerry import __version__
from skerry.sdk.channel_errors import PlatformError, check_reached
from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile

CHANNEL_HOSTS: Final = ("*.discord.gg", "cdn.discordapp.com", "media.discordapp.net")
_AGENT: Final = f"DiscordBot (skerry, {__version__})"
_MAX_LIMITS: Final = 1000
_FINAL_STATUSES: Final = frozenset({400, 403, 404, 413})
_SECONDS: Final = re.compile(r"\d{1,8}(\.\d{1,9})?")


class _Refused(Struct, frozen=True):
    message: str = ""
    code: int = 0
    retry_after: float | None = None
    is_global: bool = msgspec.field(default=False, name="global")


_refused = msgspec.json.Decoder(_Refused)


class RateLimits:
    """Times of the event loop until which the server refuses requests, by kind and for all."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def seconds(self, kind: str) -> float:
        """Returns the seconds during which no request of this kind may be sent; 0 for none."""
        until = max(self._until.get("", 0.0), self._until.get(kind, 0.0))
        return max(until - anyio.current_time(), 0.0)

    def note(self, kind: str, seconds: float) -> None:
        """Records a limit; the kind `""` is all requests."""
        now = anyio.current_time()
        if len(self._until) >= _MAX_LIMITS:
            self._until = {name: until for name, until in self._until.items() if until > now}
        self._until[kind] = max(self._until.get(kind, 0.0), now + seconds)


class RestApi:
    """One bot at one server."""

    def __init__(self, root: str, token: str) -> None:
        self._root = root.rstrip("/")
        self._headers = {"authorization": f"Bot {token}", "user-agent": _AGENT}
        self._version = parsed[1] if (parsed := re.search(r"/v(\d+)$", self._root)) else "10"
        self.http = AccountHttp([root], public_hosts=CHANNEL_HOSTS)
        self.limits = RateLimits()

    @property
    def socket_query(self) -> str:
        """Returns the query of the gateway's address: the version is that of the HTTP API."""
        return f"?v={self._version}&encoding=json"

    async def call(
        self, method: str, path: str, payload: Any = None, *, seconds: float = 12.0
    ) -> bytes:
        """Returns the response body as JSON; empty for a response without one.

        Raises:
            PlatformError: the request was not carried out.
        """
        headers, body = dict(self._headers), b""
        if payload is not None:
            body = msgspec.json.encode(payload)
            headers["content-type"] = "application/json"
        url = self._root + path
        fetched = await self.http.fetch(
            url, method=method, headers=headers, body=body, seconds=seconds
        )
        return self._checked(fetched, method, path)

    async def upload(self, path: str, payload: Mapping[str, Any], file: FormFile) -> bytes:
        """Posts a message with a file; returns as `call`."""
        named = {**payload, "attachments": [{"id": 0, "filename": file.name}]}
        body = msgspec.json.encode(named).decode()
        fields: dict[str, str | FormFile] = {"payload_json": body, "files[0]": file}
        fetched = await self.http.post_form(self._root + path, fields, headers=self._headers)
        return self._checked(fetched, "POST", path)

    async def download(self, url: str, limit: int) -> Fetched:
        """Returns a file of a message, requested without the token; `truncated` beyond `limit`."""
        headers = {"user-agent": _AGENT}
        return await self.http.fetch(url, headers=headers, max_bytes=limit, seconds=30.0)

    def _checked(self, fetched: Fetched, method: str, path: str) -> bytes:
        check_reached(fetched, urlsplit(self._root).netloc)
        status, headers = fetched.status or 0, fetched.headers
        if headers.get("x-ratelimit-remaining") == "0":
            seconds = _number(headers.get("x-ratelimit-reset-after", ""))
            self.limits.note(kind_of(method, path), seconds or 0.0)
        if 200 <= status < 300:  # noqa: PLR2004 - HTTP's successes
            return fetched.body
        try:
            refused_for = _refused.decode(fetched.body)
        except msgspec.DecodeError:
            refused_for = _Refused("a response that is not JSON of Discord")
        retry_after = None
        if status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
            named = refused_for.retry_after or _number(headers.get("retry-after", ""))
            retry_after = named or 30.0
            self.limits.note("" if refused_for.is_global else kind_of(method, path), retry_after)
        code = f" ({refused_for.code})" if refused_for.code else ""
        text = f"Discord answered {status}: {refused_for.message[:200] or 'no message'}{code}"
        raise PlatformError(
            text,
            status=status,
            retry_after=retry_after,
            is_login=status == 401,  # noqa: PLR2004 - HTTP's Unauthorized
            is_final=status in _FINAL_STATUSES,
        )


def kind_of(method: str, path: str) -> str:
    """Returns the kind of a request; each channel has its own rate limit for each kind."""
    first, _, path_below = path.lstrip("/").partition("/")
    owner, _, below = path_below.partition("/")
    return f"{method} {first}/{owner}/{below.partition('/')[0]}"


def _number(text: str) -> float | None:
    return float(text) if _SECONDS.fullmatch(text) else None
