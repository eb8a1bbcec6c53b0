"""Requests to a BlueBubbles server, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Raw, Struct, field

from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile

PAGE: Final = 200
_MAX_PAGES: Final = 20
WINDOW: Final = 1000
"""Rows that are read at once when very many are new; they fit in `_MAX_PAGES`."""
_OK: Final = range(200, 300)
_LIMITED: Final = 429
_UNAUTHORIZED: Final = frozenset({401, 403})
_FINAL_STATUSES: Final = frozenset({400, 404})
_QUEUED: Final = "already queued"
_SEND_SECONDS: Final = 14.0


class _Error(Struct, frozen=True):
    message: str | None = None


class _Row(Struct, frozen=True):
    error: int | None = None


class _Answer(Struct, frozen=True):
    message: str | None = None
    data: Raw = field(default_factory=lambda: Raw(b"null"))
    error: _Error | None = None


_answers = msgspec.json.Decoder(_Answer)
_rows = msgspec.json.Decoder(_Row | None)
_lists = msgspec.json.Decoder(list[Raw])


class BlueBubbles:
    """One server."""

    def __init__(self, root: str, password: str) -> None:
        self._root = root.rstrip("/")
        self._password = password
        self.http = AccountHttp([root])

    async def info(self) -> bytes:
        """Returns the description of the server. Raises `PlatformError`, as all others do."""
        return self._data(await self.http.fetch(self._url("server/info")), "server/info")

    async def query(self, options: Mapping[str, Any]) -> list[Raw]:
        """Returns messages, with their chats and attachments."""
        body = {"with": ["chats", "attachments", "attributedBody"], **options}
        return _lists.decode(await self._post("message/query", body))

    async def after(self, row: int) -> list[Raw] | None:
        """Returns the messages after a row, unordered; None when there are too many.

        The server sorts by the time at which a message was written, so a page may lack a row that
        is older than those on it: only all pages together have every row.
        """
        return await self._pages([{"statement": "message.ROWID > :row", "args": {"row": row}}])

    async def between(self, row: int, end: int) -> list[Raw]:
        """Returns the messages after a row, up to the row `end`, which is `WINDOW` further."""
        after = {"statement": "message.ROWID > :row", "args": {"row": row}}
        upto = {"statement": "message.ROWID <= :end", "args": {"end": end}}
        return await self._pages([after, upto]) or []

    async def _pages(self, conditions: list[dict[str, Any]]) -> list[Raw] | None:
        request = {"where": conditions, "sort": "ASC", "limit": PAGE}
        messages: list[Raw] = []
        for number in range(_MAX_PAGES):
            page = await self.query({**request, "offset": number * PAGE})
            messages += page
            if len(page) < PAGE:
                return messages
        return None

    async def message(self, guid: str) -> bytes:
        """Returns one message."""
        endpoint = f"message/{quote(guid, safe='')}"
        query = {"with": "chats,attachments,attributedBody"}
        return self._data(await self.http.fetch(self._url(endpoint, query)), "message")

    async def contact(self, address: str) -> list[Raw]:
        """Returns the contacts of an address."""
        return _lists.decode(await self._post("contact/query", {"addresses": [address]}))

    async def send_text(self, body: Mapping[str, Any]) -> bytes:
        """Sends a text; returns the message."""
        return await self._post("message/text", body, _SEND_SECONDS)

    async def send_file(self, fields: Mapping[str, str], file: FormFile) -> bytes:
        """Sends a file; returns the message."""
        endpoint = "message/attachment"
        fetched = await self.http.post_form(
            self._url(endpoint), {**fields, "attachment": file}, seconds=_SEND_SECONDS
        )
        return self._data(fetched, endpoint)

    async def react(self, body: Mapping[str, Any]) -> None:
        """Sets or removes a tapback."""
        await self._post("message/react", body)

    async def typing(self, chat: str) -> None:
        """Shows the typing indicator."""
        await self._post(f"chat/{quote(chat, safe='')}/typing", {})

    async def mark_read(self, chat: str) -> None:
        """Marks a chat as read."""
        await self._post(f"chat/{quote(chat, safe='')}/read", {})

    async def download(self, guid: str, limit: int) -> Fetched:
        """Returns a file; `truncated` beyond `limit` bytes."""
        endpoint = f"attachment/{quote(guid, safe='')}/download"
        return await self.http.fetch(self._url(endpoint), max_bytes=limit, seconds=30.0)

    def _url(self, endpoint: str, query: Mapping[str, str] | None = None) -> str:
        encoded = urlencode({**(query or {}), "password": self._password})
        return f"{self._root}/api/v1/{endpoint}?{encoded}"

    async def _post(self, endpoint: str, body: Mapping[str, Any], seconds: float = 12.0) -> bytes:
        fetched = await self.http.post_json(self._url(endpoint), body, seconds=seconds)
        return self._data(fetched, endpoint)

    def _data(self, fetched: Fetched, endpoint: str) -> bytes:
        """Returns the data of a response. No error names the address, which has the password."""
        check_reached(fetched, self._root)
        status = fetched.status or 0
        if status == _LIMITED:
            message, wait = (
                f"A limit before {self._root} is reached, at {endpoint}.",
                named_wait(fetched),
            )
            raise PlatformError(message, status=status, retry_after=wait or 30.0)
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            message = f"{self._root} answered {status} to {endpoint} without JSON of BlueBubbles."
            raise PlatformError(message, status=status, is_login=status in _UNAUTHORIZED) from None
        if status in _OK:
            return bytes(answer.data)
        raise self._failure(status, endpoint, answer)

    def _failure(self, status: int, endpoint: str, answer: _Answer) -> PlatformError:
        messages = [answer.message or "", (answer.error.message if answer.error else "") or ""]
        text = " ".join(" ".join(dict.fromkeys(messages)).split())[:300]
        try:
            row = _rows.decode(answer.data)
        except msgspec.DecodeError:
            row = None
        # A message with an error code was given to Apple, and is shown as "not delivered".
        has_failed = row is not None and bool(row.error)
        return PlatformError(
            f"BlueBubbles answered {status} to {endpoint}: {text}",
            status=status,
            is_login=status in _UNAUTHORIZED,
            is_final=has_failed or (status in _FINAL_STATUSES and _QUEUED not in text),
        )
