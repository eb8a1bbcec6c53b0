"""Requests to the Graph API for one business number, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile

_LOGIN: Final = frozenset(
    {0, 3, 10, 190, *range(200, 300), 368, 131005, 131031, 131042, 131045, 133010}
)
"""Codes that only a person can fix: tokens, permissions, payment, a number that is locked."""
_RETRY_SECONDS: Final[Mapping[int, float]] = {
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
"""Codes after which the same request may succeed, and the delay in seconds if Meta sends none."""
_FILES: Final = (".fbsbx.com", ".facebook.com", ".whatsapp.net")
"""Domains from which files are fetched; the token goes to no other."""
_OK: Final = range(200, 300)
_MAX_REASON: Final = 300


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
        """Returns the failure as one line of text."""
        parts = (self.message or self.title, self.error_data.details)
        text = " ".join(" ".join(dict.fromkeys(part for part in parts if part)).split())
        return f"error {self.code}: {text[:_MAX_REASON] or 'no description'}"


class _Answer(Struct, frozen=True):
    error: Failure | None = None


_answers = msgspec.json.Decoder(_Answer)


class GraphApi:
    """One business number at one server."""

    def __init__(self, root: str, phone_number_id: str, token: str) -> None:
        self._root = root.rstrip("/")
        self._number = phone_number_id
        self._headers = {"authorization": f"Bearer {token}"}
        self.http = AccountHttp([root], public_hosts=tuple(f"*{domain}" for domain in _FILES))

    async def number(self) -> bytes:
        """Returns the description of the number.

        Raises:
            PlatformError: there is no answer, or it says that nothing was done.
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
            "type": file.mime or "application/octet-stream",
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
        check_reached(fetched, self._root)
        try:
            failure = _answers.decode(fetched.body).error
        except msgspec.DecodeError:
            failure = None if fetched.status in _OK else Failure(-1)
        if failure is None and fetched.status in _OK:
            return fetched.body
        if failure is None or failure.code < 0:
            raise PlatformError(f"{self._root} answered {fetched.status} without an error of Meta.")
        pause = _RETRY_SECONDS.get(failure.code)
        raise PlatformError(
            explained(failure.code, f"WhatsApp refused it, {failure.text}"),
            code=str(failure.code),
            retry_after=pause and (named_wait(fetched) or pause),
            is_login=failure.code in _LOGIN,
            is_final=True,
        )


def explained(code: int, text: str) -> str:
    """Returns the text of an error with its remedy."""
    if code == 131047:  # noqa: PLR2004 - Meta's code
        return (
            f"{text}. More than 24 hours have passed since the person wrote; they must write first."
        )
    if code == 131026:  # noqa: PLR2004 - Meta's code
        return f"{text}. The person has no WhatsApp or an old version, or has blocked this number."
    return text
