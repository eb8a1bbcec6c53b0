"""`signal-cli daemon --http`: JSON-RPC, and events as a stream."""

import base64
import binascii
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.signal.api import SignalFile, SignalQuote
from skerry.channels.signal.markup import styled
from skerry.sdk.channel_errors import PlatformError, check_reached
from skerry.sdk.channel_events import AccountEvents
from skerry.sdk.channel_host import AccountHttp
from skerry.sdk.channels import OutboundPart, Peer, PeerKind

_USER_ERROR: Final = -1
_UNTRUSTED_KEY: Final = -4
_RATE_LIMIT: Final = frozenset({-5, -6})
_INVALID_PARAMS: Final = -32602
_USUAL_WAIT: Final = 300.0
_TEMPORARY: Final = frozenset({"NETWORK_FAILURE", "RATE_LIMIT_FAILURE"})
_SEND_SECONDS: Final = 14.0
_MAX_ENCODED: Final = 10_000_000
"""Maximum length of the base64 of a file; the HTTP client reads no longer response."""


class _Result(Struct, frozen=True, rename="camel"):
    type: str = ""
    retry_after_seconds: float | None = None


class SendResult(Struct, frozen=True):
    """The answer about a message."""

    timestamp: int = 0
    results: tuple[_Result, ...] = ()


class _Data(Struct, frozen=True):
    response: SendResult | None = None


class _Error(Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Raw = field(default_factory=lambda: Raw(b"null"))


class _Answer(Struct, frozen=True):
    result: Raw = field(default_factory=lambda: Raw(b"null"))
    error: _Error | None = None


class _Version(Struct, frozen=True):
    version: str = ""


class _Encoded(Struct, frozen=True):
    data: str = ""


_answers = msgspec.json.Decoder(_Answer)
_details = msgspec.json.Decoder(_Data | None)
_sent = msgspec.json.Decoder(SendResult)
_version = msgspec.json.Decoder(_Version)
_encoded = msgspec.json.Decoder(_Encoded)


class Daemon:
    """Implements `api.Bridge`."""

    def __init__(self, root: str, account: str) -> None:
        self._root = root.rstrip("/")
        self._account = account
        self.http = AccountHttp([root])

    async def check(self) -> str:
        """Returns the version of signal-cli."""
        return f"signal-cli {_version.decode(await self._call('version', {})).version}"

    async def events(self) -> AccountEvents:
        """Opens the stream of events of the account."""
        url = f"{self._root}/api/v1/events?account={quote(self._account, safe='')}"
        return await AccountEvents.open(self.http, url)

    async def send(
        self, part: OutboundPart, quoted: SignalQuote | None, file: SignalFile | None
    ) -> int:
        """Sends a part; returns its time stamp, which identifies the message."""
        shaped = styled(part.text)
        params: dict[str, Any] = {**_to(part.to.peer), "message": shaped.text}
        if shaped.styles:
            params["textStyle"] = shaped.styles
        if quoted is not None:
            about = {"quoteTimestamp": quoted.timestamp, "quoteAuthor": quoted.author}
            params |= {**about, "quoteMessage": quoted.text}
        if file is not None:
            params["attachment"] = [data_uri(file)]
            if file.voice:
                params["voiceNote"] = True
        return _sent.decode(await self._call("send", params, _SEND_SECONDS)).timestamp

    async def typing(self, peer: Peer) -> None:
        """Shows for 15 seconds that something is written."""
        await self._call("sendTyping", _to(peer))

    async def react(self, peer: Peer, target: tuple[int, str], emoji: str, *, remove: bool) -> None:
        """Sets or removes a reaction."""
        about = {"targetTimestamp": target[0], "targetAuthor": target[1], "emoji": emoji}
        await self._call("sendReaction", {**_to(peer), **about, "remove": remove})

    async def attachment(self, peer: Peer, file_id: str, limit: int) -> bytes | None:
        """Returns a file; None if it has more than `limit` bytes."""
        recipient = {"groupId": peer.id} if peer.kind is PeerKind.GROUP else {"recipient": peer.id}
        answer = await self._call("getAttachment", {"id": file_id, **recipient}, 28.0)
        if len(answer) > _MAX_ENCODED:
            return None
        try:
            data = base64.b64decode(_encoded.decode(answer).data, validate=True)
        except binascii.Error as error:
            raise PlatformError(f"signal-cli sent a file that is not base64: {error}") from None
        return data if len(data) <= limit else None

    async def _call(self, method: str, params: dict[str, Any], seconds: float = 12.0) -> bytes:
        """Returns the result as JSON. Raises `PlatformError`."""
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {"account": self._account, **params},
        }
        url = f"{self._root}/api/v1/rpc"
        fetched = await self.http.post_json(url, request, seconds=seconds)
        check_reached(fetched, self._root)
        try:
            answer = _answers.decode(fetched.body)
        except msgspec.DecodeError:
            message = f"{self._root} answered {fetched.status} without the JSON of signal-cli."
            raise PlatformError(message) from None
        if answer.error is not None:
            raise _failure(method, answer.error)
        return bytes(answer.result)


def _failure(method: str, failure: _Error) -> PlatformError:
    """Returns the error by which the adapter decides."""
    try:
        details = _details.decode(failure.data)
    except msgspec.DecodeError:
        details = None
    results = details.response.results if details and details.response else ()
    kinds = {result.type for result in results if result.type != "SUCCESS"}
    words = f" ({', '.join(sorted(kinds))})" if kinds else ""
    error = PlatformError(f"signal-cli refused {method}: {failure.message[:200]}{words}")
    if failure.code in _RATE_LIMIT:
        waits = [result.retry_after_seconds for result in results if result.retry_after_seconds]
        error.retry_after = max(waits, default=_USUAL_WAIT)
    elif failure.code == _USER_ERROR and kinds and kinds <= _TEMPORARY:
        error.is_sent = False
    elif failure.code in {_USER_ERROR, _UNTRUSTED_KEY}:
        error.is_final = True
    elif failure.code == _INVALID_PARAMS:
        error.is_login = "account" in failure.message
        error.is_final = not error.is_login
    return error


def _to(peer: Peer) -> dict[str, Any]:
    if peer.kind is PeerKind.GROUP:
        return {"groupId": [peer.id]}
    return {"recipient": [peer.id]}


def data_uri(file: SignalFile) -> str:
    """Returns a file in the format of signal-cli."""
    name = "".join(char for char in file.name if char.isprintable() and char not in ";,")
    mime = file.mime.partition(";")[0].strip() or "application/octet-stream"
    encoded = base64.b64encode(file.data).decode()
    return f"data:{mime};filename={name or 'file'};base64,{encoded}"
