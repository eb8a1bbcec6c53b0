"""Strict WhatsApp Cloud API on loopback: one business number, its people, and its webhooks."""

import hashlib
import hmac
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve
from skerry.testing.posting import EventPoster
from skerry.testing.whatsapp_bodies import fault_of

TOKEN: Final = "EAAfake"  # noqa: S105 - of no app
SECRET: Final = "app-secret-fake"  # noqa: S105 - of no app
VERIFY: Final = "a verify token of ours"
NUMBER_ID: Final = "106540352242922"
NUMBER: Final = "15550783881"


@dataclass(frozen=True, slots=True)
class WhatsAppSent:
    """A message of the business."""

    to: str
    text: str
    id: str
    body: Mapping[str, Any]


@dataclass(slots=True)
class WhatsAppServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block, and posts events to `poster.url`."""

    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    sent: list[WhatsAppSent] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    """Bodies of all requests to `/messages`."""
    read: list[str] = field(default_factory=list)
    """Messages that were marked as read, with a typing signal."""
    reactions: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which WhatsApp would refuse."""
    planned: list[tuple[ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next messages; with True the message is sent before."""
    looks: list[ServedResponse] = field(default_factory=list)
    """Responses to the next requests for the number."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files by id: from people, and uploaded."""
    file_root: str = ""
    """Address of files in responses; empty for the address of this server."""
    reports: bool = True
    """Posts a status after each accepted message."""
    revoked: bool = False
    poster: EventPoster = field(default_factory=EventPoster)
    _count: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle) as address, self.poster:
            self.root = f"{address}/v24.0"
            yield self

    # Actions of people.

    def say(self, text: str, *, sender: str = "491701", name: str = "Alice", **fields: Any) -> str:
        """Sends a message from a person; returns its id."""
        number, message = self.message("text", {"body": text}, sender, **fields)
        self.post([message], name)
        return number

    def message(
        self, kind: str, content: Any, sender: str = "491701", **fields: Any
    ) -> tuple[str, dict[str, Any]]:
        """Returns the id and the event of a message."""
        self._count += 1
        number = f"wamid.IN{self._count}"
        stamp = str(fields.pop("timestamp", 4_000_000_000))
        head = {"from": sender, "from_user_id": f"DE.{sender}", "id": number, "timestamp": stamp}
        return number, {**head, "type": kind, kind: content, **fields}

    def press(self, command: str, *, sender: str = "491701") -> str:
        """Presses a button as a person; returns the id of the message."""
        reply = {"type": "button_reply", "button_reply": {"id": command, "title": "Allow"}}
        number, message = self.message("interactive", reply, sender)
        self.post([message])
        return number

    def post(self, messages: list[Any], name: str = "Alice", **value: Any) -> None:
        """Posts messages in one request."""
        senders = dict.fromkeys(
            message["from"] for message in messages if isinstance(message, dict)
        )
        contacts = [
            {"wa_id": sender, "user_id": f"DE.{sender}", "profile": {"name": name}}
            for sender in senders
        ]
        values = {"contacts": contacts, "messages": messages} if messages else {}
        self.post_raw(self.body({**values, **value}))

    def status(self, status: str, tracker: str, to: str = "491701", **fields: Any) -> None:
        """Posts the status of a message of the business."""
        message = {
            "id": "wamid.X",
            "status": status,
            "timestamp": "4000000000",
            "recipient_id": to,
            "recipient_user_id": f"DE.{to}",
            "biz_opaque_callback_data": tracker,
        }
        contact = {"wa_id": to, "user_id": f"DE.{to}", "profile": {"name": "Alice"}}
        self.post_raw(self.body({"contacts": [contact], "statuses": [{**message, **fields}]}))

    def body(self, value: dict[str, Any], field_: str = "messages") -> bytes:
        """Returns the body of a request."""
        about = {"display_phone_number": NUMBER, "phone_number_id": NUMBER_ID}
        full = {"messaging_product": "whatsapp", "metadata": about, **value}
        entry = {"id": "102290129340398", "changes": [{"field": field_, "value": full}]}
        return msgspec.json.encode({"object": "whatsapp_business_account", "entry": [entry]})

    def post_raw(self, body: bytes, secret: str = SECRET) -> None:
        """Posts a body, signed."""
        self.poster.add(body, {"content-type": "application/json", **signed(body, secret)})

    def fail(self, code: int, message: str = "no", status: int = 400, **headers: str) -> None:
        """Refuses the next message."""
        error = {"message": f"(#{code}) {message}", "type": "OAuthException", "code": code}
        body = msgspec.json.encode({"error": {**error, "fbtrace_id": "x"}})
        self.planned.append((ServedResponse(body, status, headers=headers), False))

    async def wait_for(self, count: int) -> list[str]:
        """Waits until people have received `count` messages; returns their texts."""
        with anyio.fail_after(60):
            while len(self.sent) < count:
                await self._changed.wait()
        return self.texts

    @property
    def texts(self) -> list[str]:
        """Returns the texts that people have received."""
        return [sent.text for sent in self.sent]

    # Requests of the business.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        if self.revoked or request.headers.get("authorization") != f"Bearer {TOKEN}":
            return ServedResponse.of(
                {"error": {"message": "Invalid OAuth token", "code": 190}}, 401
            )
        path = request.path.removeprefix("/v24.0/")
        if request.path.startswith("/files/"):
            data = self.files.get(path.removeprefix("/files/"))
            return ServedResponse(data or b"", 200 if data is not None else 404, "application/x")
        return self._get(path) if request.method == "GET" else self._post(path, request)

    def _get(self, path: str) -> ServedResponse:
        if path == NUMBER_ID:
            described = {"display_phone_number": "+1 555", "verified_name": "House"}
            usual = ServedResponse.of({"id": NUMBER_ID, **described})
            return self.looks.pop(0) if self.looks else usual
        if path not in self.files:
            return self._fault(f"GET {path}: no such object")
        root = self.file_root or self.root.replace("/v24.0", "/files")
        described = {"id": path, "url": f"{root}/{path}"}
        return ServedResponse.of({"messaging_product": "whatsapp", **described})

    def _post(self, path: str, request: ServedRequest) -> ServedResponse:
        if path == f"{NUMBER_ID}/messages":
            return self._answer(request)
        if path == f"{NUMBER_ID}/media":
            return self._upload(request)
        return self._fault(f"{request.method} {path}: no such object")

    def _answer(self, request: ServedRequest) -> ServedResponse:
        plan = self.planned.pop(0) if self.planned else None
        if plan is not None and not plan[1]:
            return plan[0]
        body = request.json
        self.bodies.append(body)
        fault = fault_of(body)
        if fault:
            return self._fault(fault)
        answer = self._take(body)
        return plan[0] if plan else answer

    def _take(self, body: dict[str, Any]) -> ServedResponse:
        if body.get("status") == "read":
            self.read.append(body["message_id"])
            return ServedResponse.of({"success": True})
        to = body.get("to") or body["recipient"]
        self._count += 1
        number = f"wamid.OUT{self._count}"
        kind = body["type"]
        if kind == "reaction":
            self.reactions.append((body[kind]["message_id"], body[kind]["emoji"]))
        else:
            self.sent.append(WhatsAppSent(to, _visible_text(kind, body[kind]), number, body))
        self._changed.set()
        self._changed = anyio.Event()
        if self.reports and (tracker := body.get("biz_opaque_callback_data")):
            self.status("sent", tracker, to, id=number)
        contacts = [{"input": to, "wa_id": to}]
        return ServedResponse.of({"contacts": contacts, "messages": [{"id": number}]})

    def _upload(self, request: ServedRequest) -> ServedResponse:
        form = request.form()
        file = form.get("file")
        if form.get("messaging_product") != "whatsapp" or not isinstance(file, UploadedFile):
            return self._fault("media: no file")
        self._count += 1
        number = f"9{self._count:05d}"
        self.files[number] = file.data
        return ServedResponse.of({"id": number})

    def _fault(self, text: str) -> ServedResponse:
        self.faults.append(text)
        return ServedResponse.of({"error": {"message": f"(#100) {text}", "code": 100}}, 400)


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    """Returns the header that signs a body."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={signature}"}


def _visible_text(kind: str, content: dict[str, Any]) -> str:
    texts = {"text": "body", "interactive": "body"}
    text = content.get(texts.get(kind, "caption"), "")
    text = text["text"] if isinstance(text, dict) else text
    return str(text).replace("\u200b", "")
