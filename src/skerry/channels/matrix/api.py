"""Requests to the client-server API of a homeserver, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from skerry.sdk.channel_host import AccountHttp, Fetched, Outcome

_SLACK: Final = 8.0
"""Seconds that a long request may take beyond its own wait."""
_UPLOAD_SECONDS: Final = 60.0
NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a fetch that ended before anything was sent."""
_OK: Final = 200
CLIENT: Final = "/_matrix/client/v3"


class _Failure(Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


_failures = msgspec.json.Decoder(_Failure)


class ApiError(Exception):
    """The homeserver did not carry out a request."""

    def __init__(self, description: str, status: int = 0, code: str = "") -> None:
        self.status = status
        """HTTP status; 0 when no answer arrived."""
        self.code = code
        """Error code of Matrix, such as `M_FORBIDDEN`."""
        self.retry_after: float | None = None
        """Seconds after which the server wants to be asked again."""
        self.is_sent = True
        """False when the request certainly did not reach the server."""
        super().__init__(description)


def path(*parts: str) -> str:
    """Returns parts of an address, each percent-encoded."""
    return "/".join(quote(part, safe="") for part in parts)


class MatrixApi:
    """One account at one homeserver."""

    def __init__(self, root: str, token: str, http: AccountHttp | None = None) -> None:
        self.root = root.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self.http = http or AccountHttp([root])

    async def get(
        self, where: str, query: Mapping[str, str] | None = None, *, wait: float = 4.0
    ) -> bytes:
        """Returns the answer; `wait` is for how many seconds the server may be silent.

        Raises:
            ApiError: there is none.
        """
        url = f"{self.root}{where}" + (f"?{urlencode(query)}" if query else "")
        seconds = wait + _SLACK
        return self._answer(await self.http.fetch(url, headers=self._headers, seconds=seconds))

    async def put(self, where: str, content: Mapping[str, Any]) -> bytes:
        """Puts a value as JSON; returns as `get`."""
        return await self._send("PUT", where, content)

    async def post(self, where: str, content: Mapping[str, Any]) -> bytes:
        """Posts a value as JSON; returns as `get`."""
        return await self._send("POST", where, content)

    async def _send(self, method: str, where: str, content: Mapping[str, Any]) -> bytes:
        headers = {**self._headers, "content-type": "application/json"}
        body = msgspec.json.encode(content)
        url = f"{self.root}{where}"
        return self._answer(await self.http.fetch(url, method=method, headers=headers, body=body))

    async def upload(self, data: bytes, mime: str, name: str) -> bytes:
        """Uploads a file, under a name if there is one; returns as `get`."""
        headers = {**self._headers, "content-type": mime or "application/octet-stream"}
        query = f"?{urlencode({'filename': name})}" if name else ""
        url = f"{self.root}/_matrix/media/v3/upload{query}"
        return self._answer(
            await self.http.fetch(
                url, method="POST", headers=headers, body=data, seconds=_UPLOAD_SECONDS
            )
        )

    async def download(self, server: str, media_id: str, limit: int) -> Fetched:
        """Returns a file of the media repository; `truncated` beyond `limit` bytes."""
        where = path(server, media_id)
        url = f"{self.root}/_matrix/client/v1/media/download/{where}"
        return await self.http.fetch(
            url, headers=self._headers, max_bytes=limit, seconds=_UPLOAD_SECONDS
        )

    def _answer(self, fetched: Fetched) -> bytes:
        if fetched.outcome is not Outcome.ALLOW:
            error = ApiError(f"{self.root} cannot be reached: {fetched.reason}")
            refused = fetched.outcome is Outcome.BLOCK or fetched.rule in NOT_SENT
            error.is_sent = not refused
            raise error
        if fetched.status == _OK and not fetched.truncated:
            return fetched.body
        if fetched.truncated:
            raise ApiError(f"{self.root} answered with more bytes than are read.", _OK, "TOO_LONG")
        raise self._failure(fetched)

    def _failure(self, fetched: Fetched) -> ApiError:
        status = fetched.status or 0
        try:
            failure = _failures.decode(fetched.body)
        except msgspec.DecodeError:
            failure = _Failure(error="no error of Matrix")
        text = f"{self.root} answered {status} {failure.errcode}: {failure.error[:200]}"
        error = ApiError(text, status, failure.errcode)
        if status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
            seconds = (failure.retry_after_ms or 0) / 1000
            header = fetched.headers.get("retry-after", "")
            error.retry_after = max(seconds, float(header) if header.isdecimal() else 0, 1.0)
        return error
