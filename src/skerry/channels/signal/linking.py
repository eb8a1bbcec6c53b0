"""Links signal-cli with the account of a phone: an address that the phone reads as a QR code."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import msgspec
from msgspec import Struct

from skerry.channels.signal.config import SignalAccount
from skerry.sdk.channel_errors import PlatformError, check_reached
from skerry.sdk.channel_host import AccountHttp, Fetched

DEVICE: Final = "skerry"
WAIT_SECONDS: Final = 300.0
"""Time in which the phone must have read the code."""
_LOOK_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0
_OK: Final = 200


class LinkError(Exception):
    """Error: the account was not linked, with the reason."""


class _Begun(Struct, frozen=True):
    uri: str = msgspec.field(default="", name="deviceLinkUri")
    of_bridge: str = msgspec.field(default="", name="device_link_uri")


class _Account(Struct, frozen=True):
    number: str = ""


class _Error(Struct, frozen=True):
    message: str = ""


class _Answer(Struct, frozen=True):
    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    error: _Error | None = None


_answers = msgspec.json.Decoder(_Answer)


class Link(Struct):
    """One attempt to link. Give `uri` to the phone, then call `number`."""

    uri: str
    _server: "_Server"
    _before: frozenset[str]

    async def number(self) -> str:
        """Returns the number of the account once the phone has agreed. Raises `LinkError`."""
        outcomes: list[str | LinkError] = []

        async def finish() -> None:
            try:
                await self._server.finish(self.uri)
            except LinkError as error:
                outcomes.append(error)
                tasks.cancel_scope.cancel()

        async def look() -> None:
            try:
                # Neither program reports the link unasked.
                while not (new := await self._server.numbers() - self._before):  # noqa: ASYNC110
                    await anyio.sleep(_LOOK_SECONDS)
                outcomes.append(min(new))
            except LinkError as error:
                outcomes.append(error)
            tasks.cancel_scope.cancel()

        with anyio.move_on_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(finish)
                tasks.start_soon(look)
        outcome = (
            outcomes[0]
            if outcomes
            else LinkError(f"No phone scanned the QR code within {WAIT_SECONDS:g} s.")
        )
        if isinstance(outcome, LinkError):
            raise outcome
        return outcome


@asynccontextmanager
async def linking(settings: SignalAccount) -> AsyncGenerator[Link]:
    """Asks the server of the settings for an address to link with. Raises `LinkError`."""
    server = _Server(settings)
    try:
        before = await server.numbers()
        yield Link(await server.begin(), server, before)
    finally:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await server.http.close()


class _Server:
    """signal-cli, or the REST bridge."""

    def __init__(self, settings: SignalAccount) -> None:
        self._root = str(settings.api_root).rstrip("/")
        self._is_rest = settings.bridge == "rest"
        self.http = AccountHttp([self._root])

    async def begin(self) -> str:
        """Returns the address for the phone."""
        if self._is_rest:
            query = urlencode({"device_name": DEVICE})
            answer = await self._get(f"v1/qrcodelink/raw?{query}")
        else:
            answer = await self._call("startLink", {})
        try:
            begun = msgspec.json.decode(answer, type=_Begun)
        except msgspec.DecodeError:
            begun = _Begun()
        if not (uri := begun.uri or begun.of_bridge).startswith("sgnl://"):
            raise LinkError(f"{self._root} returned no address for linking. It may be too old.")
        return uri

    async def numbers(self) -> frozenset[str]:
        """Returns the accounts that the server has."""
        try:
            if self._is_rest:
                return frozenset(
                    msgspec.json.decode(await self._get("v1/accounts"), type=list[str])
                )
            listed = await self._call("listAccounts", {})
            accounts = msgspec.json.decode(listed, type=list[_Account])
        except msgspec.DecodeError as error:
            raise LinkError(f"{self._root} does not list its accounts: {error}") from error
        return frozenset(account.number for account in accounts if account.number)

    async def finish(self, uri: str) -> None:
        """Makes signal-cli wait for the phone; the bridge waits without a request."""
        if not self._is_rest:
            # It answers when the phone has agreed, and continues if the client disconnects.
            params = {"deviceLinkUri": uri, "deviceName": DEVICE}
            await self._call("finishLink", params, is_slow=True)

    def _check(self, fetched: Fetched) -> None:
        try:
            check_reached(fetched, self._root)
        except PlatformError as error:
            raise LinkError(str(error)) from error

    async def _get(self, path: str) -> bytes:
        fetched = await self.http.fetch(f"{self._root}/{path}")
        self._check(fetched)
        if fetched.status != _OK:
            raise LinkError(f"{self._root} answered {fetched.status} to {path.partition('?')[0]}.")
        return fetched.body

    async def _call(self, method: str, params: dict[str, Any], *, is_slow: bool = False) -> bytes:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        fetched = await self.http.post_json(f"{self._root}/api/v1/rpc", request)
        if is_slow and fetched.rule == "timeout":
            return b"null"
        self._check(fetched)
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            raise LinkError(f"{self._root} answered without the JSON of signal-cli.") from None
        if answer.error is not None:
            raise LinkError(
                f"signal-cli refused {method}: {answer.error.message[:200]}. To link an account it"
                " must run without -a."
            )
        return bytes(answer.result)
