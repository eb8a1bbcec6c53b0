"""Requests to the Bot API, and its errors."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from skerry.sdk.channel_errors import PlatformError, check_reached
from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile

_EXTRA_SECONDS: Final = 8.0
"""Seconds that a long-polling request may take beyond its wait."""
_UPLOAD_SECONDS: Final = 60.0
_REFUSED_TOKEN: Final = frozenset({401, 404})
_FINAL_STATUSES: Final = frozenset({400, 403, 413})


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


class ApiError(PlatformError):
    """The Bot API did not carry out a request."""

    def __init__(self, message: str, status: int, parameters: _Parameters) -> None:
        self.migrated_to = parameters.migrate_to_chat_id
        super().__init__(
            message,
            status=status,
            retry_after=parameters.retry_after,
            is_login=status in _REFUSED_TOKEN,
            is_final=status in _FINAL_STATUSES,
        )


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
            PlatformError: there is no result.
        """
        url = f"{self._root}/bot{self._token}/{method}"
        seconds = wait + _EXTRA_SECONDS
        return self._result(await self.http.post_json(url, params or {}, seconds=seconds))

    async def upload(
        self, method: str, params: Mapping[str, Any], field: str, file: FormFile
    ) -> bytes:
        """Sends a file with the parameters; returns as `call`."""
        texts = {
            key: param if isinstance(param, str) else msgspec.json.encode(param).decode()
            for key, param in params.items()
        }
        url = f"{self._root}/bot{self._token}/{method}"
        form: dict[str, str | FormFile] = {**texts, field: file}
        return self._result(await self.http.post_form(url, form, seconds=_UPLOAD_SECONDS))

    async def download(self, path: str, limit: int) -> Fetched:
        """Returns a file by the path that `getFile` gave; `truncated` beyond `limit` bytes."""
        url = f"{self._root}/file/bot{self._token}/{path}"
        return await self.http.fetch(url, max_bytes=limit, seconds=30.0)

    def _result(self, fetched: Fetched) -> bytes:
        check_reached(fetched, self._root)
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            message = f"{self._root} answered {fetched.status} without the JSON of the Bot API."
            raise ApiError(message, fetched.status or 0, _Parameters()) from None
        if answer.ok:
            return bytes(answer.result)
        code = answer.error_code or fetched.status or 0
        text = f"Telegram answered {code}: {answer.description[:200] or 'no description'}"
        raise ApiError(text, code, answer.parameters)
