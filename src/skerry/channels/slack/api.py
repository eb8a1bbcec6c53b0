"""Requests to Slack's Web API, and its errors."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched, Outcome

_UPLOAD_SECONDS: Final = 60.0
_LOGIN: Final = frozenset(
    {"account_inactive", "invalid_auth", "not_allowed_token_type", "not_authed", "token_expired"}
    | {"missing_scope", "no_permission", "org_login_required", "token_revoked"}
)
"""Errors that only a person can fix."""
_TEMPORARY: Final = frozenset(
    {"fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable"}
)
"""Errors after which a request may have been carried out, or may be later."""


class _Answer(Struct, frozen=True):
    ok: bool = False
    error: str = ""
    needed: str = ""


_answers = msgspec.json.Decoder(_Answer)


class WebApi:
    """One app at one server."""

    def __init__(self, root: str, bot_token: str, app_token: str) -> None:
        self._root = root.rstrip("/")
        self._bot_token = bot_token
        self._app_token = app_token
        self.http = AccountHttp([root], public_hosts=("*.slack.com", "*.slack-edge.com"))

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, as_app: bool = False
    ) -> bytes:
        """Returns the whole answer as JSON; `as_app` uses the token of the app.

        Raises:
            PlatformError: there is no answer, or it reports that nothing was done.
        """
        token = self._app_token if as_app else self._bot_token
        headers = {"authorization": f"Bearer {token}"}
        url = f"{self._root}/{method}"
        fetched = await self.http.post_json(url, params or {}, headers=headers)
        return self._checked(fetched, method)

    async def call_form(self, method: str, params: Mapping[str, str]) -> bytes:
        """Calls a method that takes no JSON; returns as `call`."""
        headers = {
            "authorization": f"Bearer {self._bot_token}",
            "content-type": "application/x-www-form-urlencoded",
        }
        body = urlencode(params).encode()
        url = f"{self._root}/{method}"
        fetched = await self.http.fetch(url, method="POST", headers=headers, body=body)
        return self._checked(fetched, method)

    async def put_file(self, url: str, data: bytes, mime: str) -> None:
        """Uploads a file to the address that Slack named for it.

        Raises:
            PlatformError: Slack did not accept the file.
        """
        headers = {"content-type": mime or "application/octet-stream"}
        fetched = await self.http.fetch(
            url, method="POST", headers=headers, body=data, seconds=_UPLOAD_SECONDS
        )
        if fetched.outcome is not Outcome.ALLOW or fetched.status != 200:  # noqa: PLR2004 - HTTP's OK
            reason = fetched.reason or f"status {fetched.status}"
            raise PlatformError(f"Slack did not accept the upload of a file: {reason}")

    async def download(self, url: str, limit: int) -> Fetched:
        """Returns a file of a message; `truncated` beyond `limit` bytes."""
        headers = {"authorization": f"Bearer {self._bot_token}"}
        return await self.http.fetch(url, headers=headers, max_bytes=limit, seconds=30.0)

    def _checked(self, fetched: Fetched, method: str) -> bytes:
        check_reached(fetched, self._root)
        if fetched.status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
            text, seconds = f"Slack's rate limit of {method} is reached.", named_wait(fetched)
            raise PlatformError(text, code="ratelimited", retry_after=seconds or 30.0)
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            message = f"{self._root} answered {fetched.status} without the JSON of Slack."
            raise PlatformError(message) from None
        if not answer.ok:
            scope = f" (it needs {answer.needed[:80]})" if answer.needed else ""
            raise PlatformError(
                f"Slack refused {method}: {answer.error[:80]}{scope}",
                code=answer.error,
                is_login=answer.error in _LOGIN,
                is_final=bool(answer.error) and answer.error not in _TEMPORARY,
            )
        return fetched.body
