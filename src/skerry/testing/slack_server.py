"""Strict Slack server on loopback: Web API and Socket Mode of one workspace with one app."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Self
from urllib.parse import parse_qsl

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, ServedSocket, serve

BOT_TOKEN: Final = "xoxb-fake"  # noqa: S105 - of no workspace
APP_TOKEN: Final = "xapp-fake"  # noqa: S105 - of no workspace
BOT_USER: Final = "UBOT"
_MAX_TEXT: Final = 40_000
_MAX_BLOCK: Final = 3_000
_PARAMS: Final[Mapping[str, tuple[set[str], set[str]]]] = {
    "auth.test": (set(), set()),
    "users.info": (set(), {"user"}),
    "apps.connections.open": (set(), set()),
    "chat.postMessage": (
        {"blocks", "metadata", "thread_ts", "unfurl_links", "unfurl_media"},
        {"channel", "text"},
    ),
    "chat.update": (set(), {"channel", "ts", "text"}),
    "reactions.add": (set(), {"channel", "timestamp", "name"}),
    "reactions.remove": (set(), {"channel", "timestamp", "name"}),
    "conversations.history": ({"limit", "include_all_metadata"}, {"channel"}),
    "files.getUploadURLExternal": (set(), {"filename", "length"}),
    "files.completeUploadExternal": ({"thread_ts", "initial_comment"}, {"channel_id", "files"}),
    "conversations.replies": ({"limit", "include_all_metadata"}, {"channel", "ts"}),
}
"""Optional and required parameters of each method."""


@dataclass(frozen=True, slots=True)
class SlackPost:
    """A message of the app."""

    channel: str
    text: str
    ts: str
    params: Mapping[str, Any]


@dataclass(slots=True)
class SentFile:
    """A file of the app; `channel` is empty until it is shared."""

    name: str
    length: int
    data: bytes = b""
    title: str = ""
    channel: str = ""
    thread: str = ""
    comment: str = ""
    ts: str = ""


@dataclass(slots=True)
class SlackServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    posted: list[SlackPost] = field(default_factory=list)
    reactions: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which Slack would refuse."""
    planned: list[tuple[str, ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next request of each method; with True the request is carried out before."""
    refused_sockets: int = 0
    """Number of next sockets that are closed when they open."""
    revoked: bool = False
    names: dict[str, str] = field(default_factory=lambda: {"UALICE": "Alice"})
    """Display names of people, by id."""
    files: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, SentFile] = field(default_factory=dict)
    """Files of the app, by id."""
    _waiting: list[dict[str, Any]] = field(default_factory=list)
    """Unacknowledged envelopes, in order."""
    _sockets: list[ServedSocket] = field(default_factory=list)
    _count: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle, on_socket=self._serve_socket) as address:
            self.root = f"{address}/api"
            yield self

    # Actions of people.

    def say(self, text: str, *, channel: str = "D1", user: str = "UALICE", **fields: Any) -> str:
        """Sends a message from a person; returns its time stamp, which is its id."""
        kinds = {"D": "im", "G": "group", "C": "channel"}
        stamp = self._stamp()
        event = {"type": "message", "channel": channel, "channel_type": kinds[channel[0]]}
        self.event(**event, user=user, text=text, ts=stamp, **fields)
        return stamp

    def press(self, command: str, *, channel: str = "D1", user: str = "UALICE") -> None:
        """Presses a button as a person."""
        action = {"value": command, "action_ts": self._stamp(), "type": "button"}
        act = {"type": "block_actions", "user": {"id": user}, "channel": {"id": channel}}
        self.envelope("interactive", {**act, "actions": [action], "message": {"ts": "1.0"}})

    def slash(self, command: str, text: str, *, channel: str = "D1", user: str = "UALICE") -> None:
        """Sends a slash command as a person."""
        names = {"D": "directmessage", "G": "privategroup", "C": "general"}
        payload = {"command": command, "text": text, "user_id": user, "user_name": "alice"}
        payload |= {"channel_id": channel, "channel_name": names[channel[0]], "team_id": "T1"}
        self.envelope("slash_commands", {**payload, "trigger_id": self._stamp()})

    def event(self, **event: Any) -> None:
        """Adds an event."""
        self.envelope("events_api", {"team_id": "T1", "event": event})

    def envelope(self, kind: str, payload: Any) -> None:
        """Adds an envelope."""
        self._count += 1
        name = f"envelope-{self._count}"
        self._waiting.append({"type": kind, "envelope_id": name, "payload": payload})
        self._wake()

    def repeat(self) -> None:
        """Sends the last envelope again, with a new id."""
        last = self._waiting[-1]
        self.envelope(last["type"], last["payload"])

    async def disconnect(self) -> None:
        """Announces the end of the sockets to the app, as Slack does after some hours."""
        for socket in list(self._sockets):
            await socket.send('{"type":"disconnect","reason":"refresh_requested"}')

    async def cut(self) -> None:
        """Closes every socket."""
        for socket in list(self._sockets):
            await socket.close()

    def fail(self, method: str, error: str, status: int = 200, **headers: str) -> None:
        """Refuses the next request of a method."""
        body = msgspec.json.encode({"ok": False, "error": error})
        self.planned.append((method, ServedResponse(body, status, headers=headers), False))

    @property
    def unacknowledged(self) -> int:
        """Returns the number of envelopes that the app has not acknowledged."""
        return len(self._waiting)

    async def wait_for(self, count: int, channel: str = "D1") -> list[str]:
        """Waits until a channel has `count` messages of the app; returns their texts."""
        with anyio.fail_after(60):
            while len(texts := self.texts(channel)) < count:
                await self._changed.wait()
        return texts

    def texts(self, channel: str = "D1") -> list[str]:
        """Returns the texts of the app in a channel, with edits applied."""
        return list(
            {post.ts: post.text for post in self.posted if post.channel == channel}.values()
        )

    def _stamp(self) -> str:
        self._count += 1
        return f"1700000000.{self._count:06d}"

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Requests of the app.

    async def _serve_socket(self, socket: ServedSocket) -> None:
        if self.refused_sockets:
            self.refused_sockets -= 1
            return
        self._sockets.append(socket)
        delivered: set[str] = set()
        await socket.send('{"type":"hello","num_connections":1}')
        async with anyio.create_task_group() as tasks:

            async def give() -> None:
                while True:
                    changed = self._changed  # read first: envelopes may be added during the sends
                    for envelope in list(self._waiting):
                        if envelope["envelope_id"] not in delivered:
                            delivered.add(envelope["envelope_id"])
                            await socket.send(msgspec.json.encode(envelope).decode())
                    await changed.wait()

            tasks.start_soon(give)
            while (text := await socket.receive()) is not None:
                acknowledged = msgspec.json.decode(text).get("envelope_id")
                self._waiting = [
                    envelope
                    for envelope in self._waiting
                    if envelope["envelope_id"] != acknowledged
                ]
            tasks.cancel_scope.cancel()
        self._sockets.remove(socket)

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        method = request.path.rpartition("/")[2]
        if request.path.startswith("/files/"):
            data = self.files.get(method)
            return ServedResponse(data or b"", 200 if data else 404, "application/octet-stream")
        if request.path.startswith("/upload/"):
            return self._take_bytes(method, request.body)
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if self.revoked or request.headers.get("authorization") != f"Bearer {token}":
            return ServedResponse.of({"ok": False, "error": "invalid_auth"})
        plan = next((plan for plan in self.planned if plan[0] == method), None)
        params = _params(request)
        if plan is not None:
            self.planned.remove(plan)
            if plan[2]:
                self._answer(method, params)
            return plan[1]
        return ServedResponse.of(self._answer(method, params))

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        optional, required = _PARAMS.get(method, (set(), {"no such method"}))
        if not required <= params.keys() <= optional | required or not self._is_sendable(params):
            return self._fault(method, "invalid_arguments")
        if method.startswith("files."):
            return self._upload_place(params) if "filename" in params else self._share(params)
        match method:
            case "auth.test":
                answer: dict[str, Any] = {"user_id": BOT_USER, "user": "house", "team_id": "T1"}
            case "apps.connections.open":
                answer = {"url": self.root.replace("http:", "ws:").replace("/api", "/link")}
            case "users.info":
                answer = {"user": {"id": params["user"], "real_name": self.names[params["user"]]}}
            case "chat.postMessage" | "chat.update":
                answer = self._post(params)
            case "conversations.history" | "conversations.replies":
                answer = {"messages": self._messages(params)}
            case _:
                self.reactions.append((params["timestamp"], params["name"]))
                answer = {}
        return {"ok": True, **answer}

    def _upload_place(self, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        name = f"F{self._count}"
        self.uploads[name] = SentFile(params["filename"], int(params["length"]))
        root = self.root.removesuffix("/api")
        return {"ok": True, "upload_url": f"{root}/upload/{name}", "file_id": name}

    def _take_bytes(self, name: str, data: bytes) -> ServedResponse:
        file = self.uploads.get(name)
        if file is None or len(data) != file.length:
            self.faults.append(f"upload of {name}: {len(data)} bytes")
            return ServedResponse(b"", 400)
        file.data = data
        return ServedResponse(b"OK - 1", 200)

    def _share(self, params: dict[str, Any]) -> dict[str, Any]:
        for named in params["files"]:
            file = self.uploads.get(named["id"])
            if file is None or not file.data:
                return self._fault("files.completeUploadExternal", "file_not_found")
            file.channel, file.title = params["channel_id"], named["title"]
            file.thread = params.get("thread_ts", "")
            file.comment, file.ts = params.get("initial_comment", ""), self._stamp()
        self._wake()
        return {"ok": True, "files": params["files"]}

    def shared(self, channel: str = "D1") -> list[SentFile]:
        """Returns the files shared in a channel, in order."""
        return [file for file in self.uploads.values() if file.channel == channel]

    async def wait_for_files(self, count: int, channel: str = "D1") -> list[SentFile]:
        """Waits until a channel has `count` files; returns them."""
        with anyio.fail_after(60):
            while len(files := self.shared(channel)) < count:
                await self._changed.wait()
        return files

    def _fault(self, method: str, error: str) -> dict[str, Any]:
        self.faults.append(f"{method}: {error}")
        return {"ok": False, "error": error}

    def _is_sendable(self, params: dict[str, Any]) -> bool:
        blocks = params.get("blocks", [])
        texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        fits = all(0 < len(text) <= _MAX_BLOCK for text in texts)
        return fits and 0 < len(params.get("text", "-")) <= _MAX_TEXT

    def _post(self, params: dict[str, Any]) -> dict[str, Any]:
        stamp = params.get("ts") or self._stamp()
        plain = params["text"].replace("\u200b", "")
        for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
            plain = plain.replace(entity, char)
        self.posted.append(SlackPost(params["channel"], plain, stamp, params))
        self._wake()
        return {"channel": params["channel"], "ts": stamp}

    def _messages(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        stored = [
            {"ts": post.ts, "metadata": post.params.get("metadata", {})}
            for post in self.posted
            if post.channel == params["channel"]
        ]
        stored += [
            {"ts": file.ts, "files": [{"name": file.name}]}
            for file in self.shared(params["channel"])
        ]
        newest = sorted(stored, key=itemgetter("ts"), reverse=True)
        return newest[: params.get("limit", 100)]


def _params(request: ServedRequest) -> dict[str, Any]:
    """Returns the parameters of a request, of JSON or of a form."""
    if request.headers.get("content-type", "") == "application/x-www-form-urlencoded":
        return dict(parse_qsl(request.body.decode()))
    decoded: dict[str, Any] = request.json
    return decoded
