"""Requests to the Graph API for one business number, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile, Outcome

NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a fetch that ended before anything was sent."""
LOGIN: Final = frozenset(
    {0, 3, 10, 190, *range(200, 300), 368, 131005, 131031, 131042, 131045, 133010}
)
"""Codes that a person alone can mend: tokens, permissions, payment, a number that is locked."""
LATER: Final[Mapping[int, float]] = {
    1: 30.0,
    2: 30.0,
    4: 300.0,
    80007: 300.0,
    130429: 10.0,
    131000: 30.0,
    131016: 60.0,
    131048: 3600.0,
    131056: 10.0,
    131057: 300.0,
    131064: 60.0,
    133004: 60.0,
    133016: 3600.0,
}
"""Codes after which the same request may succeed, and seconds to wait where Meta says none."""
_FILES: Final = (".fbsbx.com", ".facebook.com", ".whatsapp.net")
"""Domains from which files are fetched; the token goes to no other."""
_OK: Final = range(200, 300)
_MOST_REASON: Final = 300


class _Details(Struct, frozen=True):
    details: str = ""


class Failure(Struct, frozen=True):
    """An error of the API, in an answer or in a status."""

    code: int = 0
    message: str = ""
    title: str = ""
    error_data: _Details = _Details()

    @property
    def text(self) -> str:
        """Returns it for people, on one line."""
        parts = (self.message or self.title, self.error_data.details)
        text = " ".join(" ".join(dict.fromkeys(part for part in parts if part)).split())
        return f"error {self.code}: {text[:_MOST_REASON] or 'no description'}"


class _Answer(Struct, frozen=True):
    error: Failure | None = None


_answers = msgspec.json.Decoder(_Answer)


class ApiError(Exception):
    """The Graph API did not carry out a request."""

    def __init__(self, message: str, code: int = -1, retry_after: float | None = None) -> None:
        self.code = code
        """Code of Meta; -1 when no error of the API arrived."""
        self.retry_after = retry_after
        self.is_sent = True
        """False when the request certainly did not reach the server."""
        super().__init__(message)


class GraphApi:
    """One business number at one server."""

    def __init__(self, root: str, phone_number_id: str, token: str) -> None:
        self._root = root.rstrip("/")
        self._number = phone_number_id
        self._headers = {"authorization": f"Bearer {token}"}
        self.http = AccountHttp([root], others=tuple(f"*{domain}" for domain in _FILES))

    async def number(self) -> bytes:
        """Returns the description of the number.

        Raises:
            ApiError: there is no answer, or it says that nothing was done.
        """
        url = f"{self._root}/{self._number}?fields=display_phone_number,verified_name"
        return self._checked(await self.http.fetch(url, headers=self._headers))

    async def post(self, payload: Mapping[str, Any]) -> bytes:
        """Posts to the number's messages; returns and raises as `number`."""
        body = {"messaging_product": "whatsapp", **payload}
        url = f"{self._root}/{self._number}/messages"
        return self._checked(await self.http.post_json(url, body, headers=self._headers))

    async def upload(self, file: FormFile) -> bytes:
        """Uploads a file; returns and raises as `number`."""
        fields: dict[str, str | FormFile] = {
            "messaging_product": "whatsapp",
            "type": file.mime,
            "file": file,
        }
        url = f"{self._root}/{self._number}/media"
        return self._checked(
            await self.http.post_form(url, fields, headers=self._headers, seconds=10.0)
        )

    async def media(self, media_id: str) -> bytes:
        """Returns the description of a file, with its address; raises as `number`."""
        url = f"{self._root}/{quote(media_id, safe='')}?phone_number_id={self._number}"
        return self._checked(await self.http.fetch(url, headers=self._headers))

    async def download(self, url: str, limit: int) -> Fetched | None:
        """Returns a file; None where its address is not one of Meta, which gets no token."""
        if not self._is_of_meta(url):
            return None
        return await self.http.fetch(url, headers=self._headers, max_bytes=limit, seconds=30.0)

    def _is_of_meta(self, url: str) -> bool:
        try:
            parts, root = urlsplit(url), urlsplit(self._root)
            is_root = (parts.scheme, parts.hostname, parts.port) == (
                *(root.scheme, root.hostname),
                root.port,
            )
        except ValueError:
            return False
        host = f".{parts.hostname or ''}"
        return is_root or (parts.scheme == "https" and host.endswith(_FILES))

    def _checked(self, fetched: Fetched) -> bytes:
        if fetched.outcome is not Outcome.ALLOW:
            error = ApiError(f"{self._root} cannot be reached: {fetched.reason}")
            refused = fetched.outcome is Outcome.BLOCK or fetched.rule in NOT_SENT
            error.is_sent = not refused
            raise error
        try:
            failure = _answers.decode(fetched.body).error
        except msgspec.DecodeError:
            failure = None if fetched.status in _OK else Failure(-1)
        if failure is None and fetched.status in _OK:
            return fetched.body
        if failure is None or failure.code < 0:
            raise ApiError(f"{self._root} answered {fetched.status} without an error of Meta.")
        text = fetched.headers.get("retry-after", "")
        seconds = float(text) if text.isdecimal() else LATER.get(failure.code)
        raise ApiError(f"WhatsApp refused it, {failure.text}", failure.code, seconds)
