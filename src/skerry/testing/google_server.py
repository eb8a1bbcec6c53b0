"""Strict Google Chat server on loopback: keys, tokens, the Chat API, and people who write."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import anyio
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.posting import EventPoster
from skerry.testing.token_issuer import decoded, jwk, pem, signing_key, token

PROJECT: Final = "123456789012"
SENDER: Final = "chat@system.gserviceaccount.com"
ACCOUNT: Final = "house@project.iam.gserviceaccount.com"
_KEY: Final = "service-account"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SCOPE: Final = "https://www.googleapis.com/auth/chat.bot"
_MAX_BYTES: Final = 32_000
_ID: Final = re.compile(r"client-[a-z0-9-]{1,56}")
_FIELDS: Final = {"text", "markupSyntax", "thread", "cardsV2"}
_CALL: Final = re.compile(r"<(?:users/[^>]+)>")
_LINK: Final = re.compile(r"<(https?://[^|>]+)\|([^>]*)>")
_PATH: Final = re.compile(r"/v1/(spaces/[A-Za-z0-9_-]+)/messages(?:/([A-Za-z0-9_.-]+))?")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of the app."""

    space: str
    name: str
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Returns the text as people read it."""
        return _LINK.sub(r"\2", self.body["text"]).replace("\u200b", "")


@dataclass(slots=True)
class GoogleServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    root: str = ""
    messages: dict[str, ChatMessage] = field(default_factory=dict)
    """Messages of the app by name, oldest first."""
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which Google would refuse."""
    planned: list[tuple[ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next messages; with True the message is sent before."""
    looks: list[ServedResponse] = field(default_factory=list)
    """Responses to the next requests for a token."""
    account: str = ACCOUNT
    files: dict[str, bytes] = field(default_factory=dict)
    poster: EventPoster = field(default_factory=EventPoster)
    tokens: int = 0
    withdrawn: bool = False
    """Refuses the present token once."""
    _count: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle) as self.root, self.poster:
            yield self

    def settings(self, folder: Path) -> dict[str, Any]:
        """Returns the settings of an account of this server; writes its key file to `folder`."""
        path = folder / "service-account.json"
        content = {
            "type": "service_account",
            "client_email": ACCOUNT,
            "private_key": pem(signing_key(_KEY)),
            "private_key_id": _KEY,
            "token_uri": "https://elsewhere.example/token",
        }
        path.write_bytes(msgspec.json.encode(content))
        return {
            "serviceAccountFile": str(path),
            "audience": PROJECT,
            "apiRoot": self.root,
            "tokenUrl": f"{self.root}/token",
            "keysRoot": self.root,
        }

    # Actions of people.

    def event(self, text: str = "", **fields: Any) -> dict[str, Any]:
        """Returns an event of Alice in her chat with the app; `message` has its fields."""
        self._count += 1
        space = fields.pop("space", {"name": "spaces/ALICE", "spaceType": "DIRECT_MESSAGE"})
        alice = {"name": "users/1", "displayName": "Alice", "email": "a@x.example", "type": "HUMAN"}
        message = {
            "name": f"{space['name']}/messages/in{self._count}.{self._count}",
            "sender": alice,
            "createTime": "2026-11-24T10:00:00Z",
            "text": text,
            "argumentText": text,
            "thread": {"name": f"{space['name']}/threads/t{self._count}"},
            **fields.pop("message", {}),
        }
        usual = {"type": "MESSAGE", "eventTime": "2026-11-24T10:00:01.5Z", "user": alice}
        return {**usual, "space": space, "message": message, **fields}

    def say(self, text: str, **fields: Any) -> str:
        """Sends a message from a person; returns its name."""
        event = self.event(text, **fields)
        self.post(event)
        return str(event["message"]["name"])

    def post(self, event: Any, **claims: Any) -> None:
        """Posts an event with a token of Google."""
        self.poster.add(msgspec.json.encode(event), self.headers(**claims))

    def headers(self, **claims: Any) -> dict[str, str]:
        """Returns the headers of a request of Google."""
        usual = {"iss": SENDER, "aud": PROJECT}
        return {
            "authorization": f"Bearer {token(usual | claims, 'google')}",
            "content-type": "application/json",
        }

    def fail(self, status: int, word: str, **headers: str) -> None:
        """Refuses the next message."""
        body = {"error": {"code": status, "message": "refused", "status": word}}
        answer = ServedResponse(msgspec.json.encode(body), status, headers=headers)
        self.planned.append((answer, False))

    def texts(self, space: str = "spaces/ALICE") -> list[str]:
        """Returns the texts in a space, with edits applied."""
        return [message.text for message in self.messages.values() if message.space == space]

    async def wait_for(self, count: int, space: str = "spaces/ALICE") -> list[str]:
        """Waits until a space has `count` messages of the app; returns their texts."""
        with anyio.fail_after(60):
            while len(texts := self.texts(space)) < count:
                await self._changed.wait()
        return texts

    # Requests of the app.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        if request.path in {f"/service_accounts/v1/jwk/{SENDER}", "/oauth2/v3/certs"}:
            return ServedResponse.of({"keys": [jwk("google", alg="RS256")]})
        if request.path == "/token":
            return self._give_token(request)
        if request.headers.get("authorization") != f"Bearer token-{self.tokens}" or self.withdrawn:
            self.withdrawn = False
            return _refusal(401, "UNAUTHENTICATED")
        if request.path.startswith("/v1/media/") and request.query == {"alt": "media"}:
            data = self.files.get(request.path.removeprefix("/v1/media/"))
            return ServedResponse(data or b"", 200 if data else 404, "application/octet-stream")
        match = _PATH.fullmatch(request.path)
        if match is None:
            return self._fault(f"{request.method} {request.path}")
        return self._act(request, match[1], match[2] or "")

    def _give_token(self, request: ServedRequest) -> ServedResponse:
        if self.looks:
            return self.looks.pop(0)
        form = request.form()
        head, body, signature = str(form.get("assertion", "..")).split(".")
        claims = msgspec.json.decode(decoded(body))
        try:
            signing_key(_KEY).public_key().verify(
                decoded(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            return ServedResponse.of(
                {"error": "invalid_grant", "error_description": "signature"}, 400
            )
        expected = {"iss": self.account, "scope": _SCOPE, "aud": f"{self.root}/token"}
        is_right = expected.items() <= claims.items() and claims["exp"] - claims["iat"] <= 3600  # noqa: PLR2004 - an hour
        if form.get("grant_type") != _GRANT or not is_right:
            return ServedResponse.of({"error": "invalid_grant", "error_description": "no"}, 400)
        self.tokens += 1
        return ServedResponse.of({"access_token": f"token-{self.tokens}", "expires_in": 3599})

    def _act(self, request: ServedRequest, space: str, number: str) -> ServedResponse:
        name = f"{space}/messages/{number}"
        if request.method == "GET":
            stored = self.messages.get(name)
            return ServedResponse.of({"name": name}) if stored else _refusal(404, "NOT_FOUND")
        if request.method == "PATCH" and request.query == {"updateMask": "text"}:
            stored = self.messages.get(name)
            return self._show(space, name, request.json) if stored else _refusal(404, "NOT_FOUND")
        if request.method != "POST" or number or not self._is_sendable(request):
            return self._fault(f"{request.method} {request.path} {request.query} {request.body!r}")
        name = f"{space}/messages/{request.query['messageId']}"
        if not self.planned:
            return self._create(space, name, request.json)
        response, is_after = self.planned.pop(0)
        if is_after:
            self._create(space, name, request.json)
        return response

    def _create(self, space: str, name: str, body: Mapping[str, Any]) -> ServedResponse:
        if name in self.messages:
            return _refusal(409, "ALREADY_EXISTS")
        return self._show(space, name, body)

    def _show(self, space: str, name: str, body: Mapping[str, Any]) -> ServedResponse:
        self.messages[name] = ChatMessage(space, name, body)
        self._changed.set()
        self._changed = anyio.Event()
        return ServedResponse.of({"name": name, "thread": {"name": f"{space}/threads/new"}})

    def _is_sendable(self, request: ServedRequest) -> bool:
        body, query = request.json, request.query
        fields = {"messageId", "requestId", "messageReplyOption"}
        is_reply = query.get("messageReplyOption") == "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
        return (
            query.keys() <= fields
            and _ID.fullmatch(query.get("messageId", "")) is not None
            and ("thread" in body) == is_reply
            and body.keys() <= _FIELDS
            and body.get("markupSyntax") == "MARKUP_SYNTAX_CHAT"
            and body.get("text", "") != ""
            and _CALL.search(body["text"]) is None
            and len(request.body) <= _MAX_BYTES
        )

    def _fault(self, fault: str) -> ServedResponse:
        self.faults.append(fault)
        return _refusal(400, "INVALID_ARGUMENT")


def _refusal(status: int, word: str) -> ServedResponse:
    return ServedResponse.of({"error": {"code": status, "message": "no", "status": word}}, status)
