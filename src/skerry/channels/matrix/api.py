"""Requests to the client-server API of a homeserver, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched

_EXTRA_SECONDS: Final = 8.0
"""Seconds that a long-polling request may take beyond its wait."""
_UPLOAD_SECONDS: Final = 60.0
_OK: Final = 200
_REFUSED_TOKEN: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
FINAL_STATUSES: Final = frozenset({400, 403, 404, 413})
"""Statuses after which the same request would fail again."""
CLIENT: Final = "/_matrix/client/v3"


class _Failure(Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


_failures = msgspec.json.Decoder(_Failure)


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
        self, route: str, query: Mapping[str, str] | None = None, *, wait: float = 4.0
    ) -> bytes:
        """Returns the answer; `wait` is for how many seconds the server may be silent.

        Raises:
            PlatformError: there is none.
        """
        url = f"{self.root}{route}" + (f"?{urlencode(query)}" if query else "")
        seconds = wait + _EXTRA_SECONDS
        return self._answer(await self.http.fetch(url, headers=self._headers, seconds=seconds))

    async def put(self, route: str, content: Mapping[str, Any]) -> bytes:
        """Puts a value as JSON; returns as `get`."""
        return await self._send("PUT", route, content)

    async def post(self, route: str, content: Mapping[str, Any]) -> bytes:
        """Posts a value as JSON; returns as `get`."""
        return await self._send("POST", route, content)

    async def _send(self, method: str, route: str, content: Mapping[str, Any]) -> bytes:
        headers = {**self._headers, "content-type": "application/json"}
        body = msgspec.json.encode(content)
        url = f"{self.root}{route}"
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
        route = path(server, media_id)
        url = f"{self.root}/_matrix/client/v1/media/download/{route}"
        return await self.http.fetch(
            url, headers=self._headers, max_bytes=limit, seconds=_UPLOAD_SECONDS
        )

    def _answer(self, fetched: Fetched) -> bytes:
        check_reached(fetched, self.root)
        if fetched.status == _OK and not fetched.truncated:
            return fetched.body
        if fetched.truncated:
            raise PlatformError(f"{self.root} answered with more bytes than are read.", status=_OK)
        raise self._failure(fetched)

    def _failure(self, fetched: Fetched) -> PlatformError:
        status = fetched.status or 0
        try:
            failure = _failures.decode(fetched.body)
        except msgspec.DecodeError:
            failure = _Failure(error="no error of Matrix")
        wait = None
        if status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
            wait = max((failure.retry_after_ms or 0) / 1000, named_wait(fetched) or 0, 1.0)
        return PlatformError(
            f"{self.root} answered {status} {failure.errcode}: {failure.error[:200]}",
            status=status,
            code=failure.errcode,
            retry_after=wait,
            is_login=failure.errcode in _REFUSED_TOKEN,
            is_final=status in FINAL_STATUSES,
        )
