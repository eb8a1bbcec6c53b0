"""Requests to the Bot API, and its errors."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile, Outcome

_SLACK: Final = 8.0
"""Seconds that a long request may take beyond its own wait."""
_UPLOAD_SECONDS: Final = 60.0
NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a fetch that ended before anything was sent."""


class _Parameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Answer(Struct, frozen=True):
    ok: bool = False
    result: Raw = Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: _Parameters = _Parameters()


_answers = msgspec.json.Decoder(_Answer)


class ApiError(Exception):
    """The Bot API did not carry out a request."""

    def __init__(
        self,
        description: str,
        code: int = 0,
        retry_after: float | None = None,
        migrated_to: int | None = None,
    ) -> None:
        self.code = code
        """HTTP status; 0 when no answer of the Bot API arrived."""
        self.retry_after = retry_after
        self.migrated_to = migrated_to
        self.is_sent = True
        """False when the request certainly did not reach the server."""
        super().__init__(description)


class BotApi:
    """One bot at one server."""

    def __init__(self, root: str, token: str, http: AccountHttp | None = None) -> None:
        self._root = root.rstrip("/")
        self._token = token
        self.http = http or AccountHttp([root])

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, wait: float = 4.0
    ) -> bytes:
        """Returns the result as JSON; `wait` is for how many seconds the server may be silent.

        Raises:
            ApiError: there is none.
        """
        url = f"{self._root}/bot{self._token}/{method}"
        seconds = wait + _SLACK
        return self._result(await self.http.post_json(url, params or {}, seconds=seconds))

    async def upload(
        self, method: str, params: Mapping[str, Any], field: str, file: FormFile
    ) -> bytes:
        """Sends a file with the parameters; returns as `call`."""
        texts = {
            key: given if isinstance(given, str) else msgspec.json.encode(given).decode()
            for key, given in params.items()
        }
        url = f"{self._root}/bot{self._token}/{method}"
        form: dict[str, str | FormFile] = {**texts, field: file}
        return self._result(await self.http.post_form(url, form, seconds=_UPLOAD_SECONDS))

    async def download(self, path: str, limit: int) -> Fetched:
        """Returns a file by the path that `getFile` gave; `truncated` beyond `limit` bytes."""
        url = f"{self._root}/file/bot{self._token}/{path}"
        return await self.http.fetch(url, max_bytes=limit, seconds=30.0)

    def _result(self, fetched: Fetched) -> bytes:
        if fetched.outcome is not Outcome.ALLOW:
            error = ApiError(f"{self._root} cannot be reached: {fetched.reason}")
            refused = fetched.outcome is Outcome.BLOCK or fetched.rule in NOT_SENT
            error.is_sent = not refused
            raise error
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            message = f"{self._root} answered {fetched.status} without the JSON of the Bot API."
            raise ApiError(message, fetched.status or 0) from None
        if answer.ok:
            return bytes(answer.result)
        code = answer.error_code or fetched.status or 0
        more = answer.parameters
        text = f"Telegram answered {code}: {answer.description[:200] or 'no description'}"
        raise ApiError(text, code, more.retry_after, more.migrate_to_chat_id)
