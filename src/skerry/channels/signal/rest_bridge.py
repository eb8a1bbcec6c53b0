"""signal-cli-rest-api in its mode `json-rpc`: HTTP, and events over a WebSocket."""

import base64
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from skerry.channels.signal.api import SignalFile, SignalQuote
from skerry.channels.signal.daemon import data_uri
from skerry.channels.signal.markup import BRIDGE_MARKUP
from skerry.sdk.channel_errors import PlatformError, check_reached, named_wait
from skerry.sdk.channel_host import AccountHttp, Fetched
from skerry.sdk.channel_socket import AccountSocket
from skerry.sdk.channels import OutboundPart, Peer, PeerKind

_OK: Final = range(200, 300)
_LIMITED: Final = 429
_NOT_FOUND: Final = 404
_USUAL_WAIT: Final = 300.0
_SEND_SECONDS: Final = 14.0


class _About(Struct, frozen=True):
    version: str = ""


class _Sent(Struct, frozen=True):
    timestamp: int | str = 0


class _Failure(Struct, frozen=True):
    error: str = ""


_abouts = msgspec.json.Decoder(_About)
_accounts = msgspec.json.Decoder(list[str])
_sent = msgspec.json.Decoder(_Sent)
_failures = msgspec.json.Decoder(_Failure)


class RestBridge:
    """Implements `api.Bridge`."""

    def __init__(self, root: str, account: str) -> None:
        self._root = root.rstrip("/")
        self._account = account
        self._path = quote(account, safe="")
        self.http = AccountHttp([root])

    async def check(self) -> str:
        """Returns the version of the bridge, once it is known that it has the account."""
        about = _abouts.decode(await self._get("v1/about"))
        if self._account not in _accounts.decode(await self._get("v1/accounts")):
            message = f"{self._root} has no account {self._account}."
            raise PlatformError(message, is_login=True)
        return f"signal-cli-rest-api {about.version}"

    async def events(self) -> AccountSocket:
        """Opens the stream of events of the account."""
        root = self._root.replace("http", "ws", 1)
        return await AccountSocket.open(self.http, f"{root}/v1/receive/{self._path}")

    async def send(
        self, part: OutboundPart, quoted: SignalQuote | None, file: SignalFile | None
    ) -> int:
        """Sends a part; returns its time stamp, which identifies the message."""
        body: dict[str, Any] = {
            "number": self._account,
            "recipients": [_recipient(part.to.peer)],
            "message": BRIDGE_MARKUP.render(part.text),
            "text_mode": "styled",
        }
        if quoted is not None:
            about = {"quote_timestamp": quoted.timestamp, "quote_author": quoted.author}
            body |= {**about, "quote_message": quoted.text}
        if file is not None:
            body["base64_attachments"] = [data_uri(file)]
        answer = await self._send("POST", "v2/send", body, _SEND_SECONDS)
        return int(_sent.decode(answer).timestamp)

    async def typing(self, peer: Peer) -> None:
        """Shows for 15 seconds that something is written."""
        path = f"v1/typing-indicator/{self._path}"
        await self._send("PUT", path, {"recipient": _recipient(peer)})

    async def react(self, peer: Peer, target: tuple[int, str], emoji: str, *, remove: bool) -> None:
        """Sets or removes a reaction."""
        about: dict[str, Any] = {"target_author": target[1], "timestamp": target[0]}
        body = {"recipient": _recipient(peer), "reaction": emoji, **about}
        await self._send("DELETE" if remove else "POST", f"v1/reactions/{self._path}", body)

    async def attachment(self, peer: Peer, file_id: str, limit: int) -> bytes | None:
        """Returns a file; None if it has more than `limit` bytes."""
        del peer
        url = f"{self._root}/v1/attachments/{quote(file_id, safe='')}"
        fetched = await self.http.fetch(url, max_bytes=limit, seconds=28.0)
        return None if fetched.truncated else self._checked(fetched, "attachments")

    async def _get(self, path: str) -> bytes:
        return self._checked(await self.http.fetch(f"{self._root}/{path}"), path)

    async def _send(
        self, method: str, path: str, body: dict[str, Any], seconds: float = 12.0
    ) -> bytes:
        headers = {"content-type": "application/json"}
        fetched = await self.http.fetch(
            f"{self._root}/{path}",
            method=method,
            headers=headers,
            body=msgspec.json.encode(body),
            seconds=seconds,
        )
        return self._checked(fetched, path.rpartition("/")[0] or path)

    def _checked(self, fetched: Fetched, path: str) -> bytes:
        check_reached(fetched, self._root)
        if fetched.status in _OK:
            return fetched.body
        try:
            reason = _failures.decode(fetched.body).error
        except msgspec.DecodeError:
            reason = ""
        text = " ".join(reason[:200].split()) or "no error of the bridge"
        error = PlatformError(f"{self._root} answered {fetched.status} to {path}: {text}")
        if fetched.status == _LIMITED:
            error.retry_after = named_wait(fetched) or _USUAL_WAIT
        elif fetched.status == _NOT_FOUND or (fetched.status == 400 and reason):  # noqa: PLR2004 - HTTP's Bad Request
            # The bridge answers a network failure of signal-cli with 400 too.
            error.is_final = "NETWORK_FAILURE" not in reason and "IOException" not in reason
        raise error


def _recipient(peer: Peer) -> str:
    if peer.kind is PeerKind.GROUP:
        return f"group.{base64.b64encode(peer.id.encode()).decode()}"
    return peer.id
