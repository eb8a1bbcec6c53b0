"""Strict signal-cli on loopback: its daemon and the REST bridge, with one number and its people.

As with `--receive-mode=on-connection`, an event waits until a client is connected, and is deleted
once it has been written to the client.
"""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, ServedSocket, Write, serve
from skerry.testing.signal_bodies import SendRequest, read_rest, read_rpc

NUMBER: Final = "+15550001"
_KEEP_ALIVE: Final = 15.0
_LINKING: Final = frozenset({"listAccounts", "startLink", "finishLink"})
"""Methods without an account."""


@dataclass(slots=True)
class SignalServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block, both as the daemon and as the bridge."""

    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    sent: list[SendRequest] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    """Conversations with a typing signal."""
    reactions: list[tuple[str, str, int, bool]] = field(default_factory=list)
    """Emoji, author and time of the message, and True for a removal."""
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which signal-cli would refuse."""
    planned: list[tuple[ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next messages; with True the message is sent before."""
    checks: list[ServedResponse] = field(default_factory=list)
    """Responses to the next requests for the version."""
    files: dict[str, bytes] = field(default_factory=dict)
    refused_streams: int = 0
    """Number of next streams that are closed when they open."""
    accounts: list[str] = field(default_factory=lambda: [NUMBER])
    link_uri: str = ""
    """Address that a phone reads as a QR code; empty before the first request for one."""
    agreed: bool = False
    cuts: int = 0
    waiting: list[str] = field(default_factory=list)
    """Events that wait for a client."""
    _count: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle, on_socket=self._serve_socket) as address:
            self.root = address
            yield self

    # Actions of people.

    def say(self, text: str, *, sender: str = "+491701", name: str = "Alice", **fields: Any) -> str:
        """Sends a message from a person; returns its id."""
        stamp = self.stamp()
        data = {"timestamp": stamp, "message": text, "expiresInSeconds": 0, **fields}
        self.event({"dataMessage": data}, sender, name)
        return f"{stamp}/{sender}"

    def edit(self, target: str, text: str, sender: str = "+491701") -> None:
        """Edits a message as a person."""
        data = {"timestamp": self.stamp(), "message": text}
        edit = {"targetSentTimestamp": int(target.partition("/")[0]), "dataMessage": data}
        self.event({"editMessage": edit}, sender)

    def event(self, content: Any, sender: str = "+491701", name: str = "Alice") -> None:
        """Adds an event."""
        envelope = {"sourceNumber": sender, "sourceUuid": f"uuid-{sender}", "sourceName": name}
        full = {**envelope, "sourceDevice": 1, "timestamp": self._count, **content}
        self.raw(msgspec.json.encode({"envelope": full, "account": NUMBER}).decode())

    def raw(self, text: str) -> None:
        """Adds the text of an event, valid or not."""
        self.waiting.append(text)
        self._wake()

    def stamp(self) -> int:
        """Returns a new time."""
        self._count += 1
        return 1_700_000_000_000 + self._count

    def cut(self) -> None:
        """Ends every stream."""
        self.cuts += 1
        self._wake()

    def fail(self, code: int, message: str = "no", kind: str = "", **result: Any) -> None:
        """Refuses the next message, as the daemon does."""
        results = [{"type": kind, **result}] if kind else []
        data = {"response": {"timestamp": 1, "results": results}}
        error = {"code": code, "message": message, "data": data if kind else None}
        self.planned.append((ServedResponse.of({"jsonrpc": "2.0", "error": error, "id": 1}), False))

    async def wait_for(self, count: int) -> list[str]:
        """Waits until people have received `count` messages; returns their texts."""
        with anyio.fail_after(60):
            while len(self.sent) < count:
                await self._changed.wait()
        return self.texts

    @property
    def texts(self) -> list[str]:
        """Returns the texts that people have received."""
        return [message.text for message in self.sent]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Requests of the account.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        method, path = request.method, request.path
        if path == "/api/v1/rpc" and method == "POST":
            return await self._rpc(request)
        if path == "/api/v1/events" and method == "GET":
            if request.query.get("account") not in self.accounts:
                return ServedResponse(b"", 400)
            return ServedResponse(content_type="text/event-stream", stream=self._stream)
        return self._answer_bridge(request)

    async def _stream(self, write: Write) -> None:
        async def give(text: str) -> None:
            await write(f"event:receive\ndata:{text}\n\n".encode())

        async def keep_alive() -> None:
            while True:
                await write(b":\n")
                await anyio.sleep(_KEEP_ALIVE)

        if self._is_refused():
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_alive)
            await self._give_all(give)
            tasks.cancel_scope.cancel()

    async def _serve_socket(self, socket: ServedSocket) -> None:
        if self._is_refused():
            return
        async with anyio.create_task_group() as tasks:

            async def give() -> None:
                await self._give_all(socket.send)
                tasks.cancel_scope.cancel()

            tasks.start_soon(give)
            while await socket.receive() is not None:
                self.faults.append("a message over the WebSocket")
            tasks.cancel_scope.cancel()

    def _is_refused(self) -> bool:
        if self.refused_streams:
            self.refused_streams -= 1
            return True
        return False

    async def _give_all(self, give: Any) -> None:
        """Writes events with `give` until the streams are cut."""
        cuts = self.cuts
        while self.cuts == cuts:
            changed = self._changed
            while self.waiting and self.cuts == cuts:
                await give(self.waiting.pop(0))
            if self.cuts == cuts:
                await changed.wait()

    async def _link(self, method: str, params: dict[str, Any]) -> ServedResponse:
        """Links an account; `finishLink` waits until `agree` was called."""
        match method:
            case "listAccounts":
                return _rpc_result([{"number": number} for number in self.accounts])
            case "startLink":
                self.link_uri = f"sgnl://linkdevice?uuid=u{self.stamp()}&pub_key=k"
                return _rpc_result({"deviceLinkUri": self.link_uri})
        if params != {"deviceLinkUri": self.link_uri, "deviceName": "skerry"}:
            return _rpc_error(-1, "Link request is not valid")
        while not self.agreed:
            await self._changed.wait()
        return _rpc_result({"number": self.accounts[-1]})

    def agree(self, number: str) -> None:
        """Confirms the link as a phone that has read the code."""
        self.agreed = True
        self.accounts.append(number)
        self._wake()

    async def _rpc(self, request: ServedRequest) -> ServedResponse:
        body = request.json
        method, params = body.get("method"), dict(body.get("params", {}))
        if method in _LINKING:
            return await self._link(method, params)
        if params.pop("account", None) not in self.accounts:
            return _rpc_error(-32602, "Specified account does not exist")
        if method == "version":
            return self.checks.pop(0) if self.checks else _rpc_result({"version": "0.14.7"})
        if method == "getAttachment" and {"recipient", "groupId"} & params.keys():
            return self._attachment(params["id"])
        return self._answer_rpc(method, params)

    def _attachment(self, name: str) -> ServedResponse:
        data = self.files.get(name)
        if data is None:
            return _rpc_error(-1, f"Could not find attachment with ID: {name}")
        return _rpc_result({"data": base64.b64encode(data).decode()})

    def _answer_rpc(self, method: str, params: dict[str, Any]) -> ServedResponse:
        message = read_rpc(method, params)
        if isinstance(message, str):
            self.faults.append(message)
            return _rpc_error(-1, message)
        plan = self.planned.pop(0) if self.planned and method == "send" else None
        if plan is None or plan[1]:
            stamp = self._take(message)
            results = [{"recipientAddress": {"number": message.to}, "type": "SUCCESS"}]
            return plan[0] if plan else _rpc_result({"timestamp": stamp, "results": results})
        return plan[0]

    def _answer_bridge(self, request: ServedRequest) -> ServedResponse:
        method, path = request.method, request.path
        if method == "GET":
            return self._rest_get(path)
        message = read_rest(method, path, request.json, NUMBER)
        if isinstance(message, str):
            self.faults.append(message)
            return ServedResponse.of({"error": message}, 400)
        plan = self.planned.pop(0) if self.planned and path == "/v2/send" else None
        if plan is not None and not plan[1]:
            return plan[0]
        stamp = self._take(message)
        if plan is not None:
            return plan[0]
        if path == "/v2/send":
            return ServedResponse.of({"timestamp": str(stamp)}, 201)
        return ServedResponse(b"", 204)

    def _rest_get(self, path: str) -> ServedResponse:
        if path == "/v1/about":
            return self.checks.pop(0) if self.checks else ServedResponse.of({"version": "0.99"})
        if path == "/v1/qrcodelink/raw":
            self.link_uri = f"sgnl://linkdevice?uuid=u{self.stamp()}&pub_key=k"
            return ServedResponse.of({"device_link_uri": self.link_uri})
        if path == "/v1/accounts":
            return ServedResponse.of(self.accounts)
        data = self.files.get(path.removeprefix("/v1/attachments/"))
        if data is None:
            return ServedResponse.of({"error": "no such attachment"}, 404)
        return ServedResponse(data, 200, "application/octet-stream")

    def _take(self, message: SendRequest) -> int:
        match message.kind:
            case "typing":
                self.typed.append(message.to)
            case "reaction":
                about = (message.author, message.target, message.removes)
                self.reactions.append((message.text, *about))
            case _:
                self.sent.append(message)
        self._wake()
        return self.stamp()


def _rpc_result(result: Any) -> ServedResponse:
    return ServedResponse.of({"jsonrpc": "2.0", "result": result, "id": 1})


def _rpc_error(code: int, message: str) -> ServedResponse:
    error = {"code": code, "message": message, "data": None}
    return ServedResponse.of({"jsonrpc": "2.0", "error": error, "id": 1})
