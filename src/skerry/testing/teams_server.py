"""Strict Teams server on loopback: the issuer of tokens, the Bot Connector, people who write."""

import html
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import unquote

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.posting import EventPoster
from skerry.testing.token_issuer import jwk, token

APP: Final = "0f0f0f0f-1111-2222-3333-444444444444"
SECRET: Final = "a client secret"  # noqa: S105 - of no bot
ISSUER: Final = "https://api.botframework.com"
_BOT: Final = f"28:{APP}"
_MAX_BYTES: Final = 28_000
_TAG: Final = re.compile(r"</?(?:a|b|blockquote|code|i|pre|s)(?: href=\"[^\"<>]*\")?>")
_FIELDS: Final = {"type", "from", "conversation", "text", "textFormat", "attachments", "id"}
_PATH: Final = re.compile(r"/emea/v3/conversations/([^/]+)/activities(?:/([^/]+))?")


@dataclass(frozen=True, slots=True)
class TeamsMessage:
    """A message of the bot."""

    conversation: str
    id: str
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Returns the text as people read it."""
        return html.unescape(_TAG.sub("", self.body["text"].replace("<br>", "\n")))


@dataclass(slots=True)
class TeamsServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    root: str = ""
    messages: list[TeamsMessage] = field(default_factory=list)
    """Messages of the bot and their edits, in order."""
    typed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which Teams would refuse."""
    planned: list[tuple[ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next messages; with True the message is sent before."""
    looks: list[ServedResponse] = field(default_factory=list)
    """Responses to the next requests for a token."""
    secret: str = SECRET
    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    """Files that the bot uploaded, by the id of their card."""
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

    @property
    def service(self) -> str:
        """Returns the address of the connector."""
        return f"{self.root}/emea/"

    @property
    def settings(self) -> dict[str, Any]:
        """Returns the settings of an account of this server."""
        return {
            "appId": APP,
            "appPassword": SECRET,
            "metadataUrl": f"{self.root}/metadata",
            "loginRoot": self.root,
            "serviceRoots": [f"{self.root}/emea"],
        }

    # Actions of people.

    def activity(self, **fields: Any) -> dict[str, Any]:
        """Returns an activity of Alice in her chat with the bot."""
        self._count += 1
        return {
            "type": "message",
            "id": f"17000000{self._count:05d}",
            "timestamp": "2026-11-24T10:00:00.000Z",
            "channelId": "msteams",
            "serviceUrl": self.service,
            "from": {"id": "29:alice", "name": "Alice", "aadObjectId": "aad-alice"},
            "recipient": {"id": _BOT, "name": "House"},
            "conversation": {"id": "a:alice", "conversationType": "personal", "tenantId": "t"},
            "textFormat": "plain",
            "channelData": {"tenant": {"id": "t"}},
            **fields,
        }

    def say(self, text: str, **fields: Any) -> str:
        """Sends a message from a person; returns its id."""
        event = self.activity(text=text, **fields)
        self.post(event)
        return str(event["id"])

    def post(self, event: Any, **claims: Any) -> None:
        """Posts an activity with a token of Microsoft."""
        self.poster.add(msgspec.json.encode(event), self.headers(**claims))

    def headers(self, **claims: Any) -> dict[str, str]:
        """Returns the headers of a request of Microsoft."""
        usual = {"iss": ISSUER, "aud": APP, "serviceurl": self.service}
        return {
            "authorization": f"Bearer {token(usual | claims)}",
            "content-type": "application/json",
        }

    def consent(
        self, card: "TeamsMessage", action: str = "accept", address: str = ""
    ) -> dict[str, Any]:
        """Returns the activity with which the person accepts or declines the file of a card."""
        content = card.body["attachments"][-1]["content"]
        info = {
            "uploadUrl": address or f"{self.root}/emea/drive/{card.id}",
            "contentUrl": f"https://t-my.sharepoint.com/{card.id}",
            "name": card.body["attachments"][-1]["name"],
            "uniqueId": card.id,
            "fileType": "pdf",
        }
        value = {"type": "fileUpload", "action": action, "context": content[f"{action}Context"]}
        value |= {"uploadInfo": info} if action == "accept" else {}
        return self.activity(type="invoke", name="fileConsent/invoke", value=value)

    def fail(self, status: int, code: str, **headers: str) -> None:
        """Refuses the next message."""
        body = msgspec.json.encode({"error": {"code": code, "message": "refused"}})
        self.planned.append((ServedResponse(body, status, headers=headers), False))

    def texts(self, conversation: str = "a:alice") -> list[str]:
        """Returns the texts in a chat, with edits applied."""
        return list(
            {
                message.id: message.text
                for message in self.messages
                if message.conversation == conversation
            }.values()
        )

    async def wait_for(self, count: int, conversation: str = "a:alice") -> list[str]:
        """Waits until a chat has `count` messages of the bot; returns their texts."""
        with anyio.fail_after(60):
            while len(texts := self.texts(conversation)) < count:
                await self._changed.wait()
        return texts

    # Requests of the bot.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        if request.path in {"/metadata", "/keys"}:
            issuer = {"issuer": ISSUER, "jwks_uri": f"{self.root}/keys"}
            keys = {"keys": [jwk(endorsements=["msteams", "webchat"])]}
            return ServedResponse.of(issuer if request.path == "/metadata" else keys)
        if request.path.endswith("/oauth2/v2.0/token"):
            return self._give_token(request)
        if request.path.startswith("/emea/drive/"):
            return self._store(request)
        if request.headers.get("authorization") != f"Bearer token-{self.tokens}" or self.withdrawn:
            self.withdrawn = False
            return ServedResponse.of({"error": {"code": "Unauthorized", "message": "no"}}, 401)
        if request.path.startswith("/emea/files/"):
            data = self.files.get(request.path.rpartition("/")[2])
            return ServedResponse(data or b"", 200 if data else 404, "application/octet-stream")
        return self._act(request)

    def _give_token(self, request: ServedRequest) -> ServedResponse:
        if self.looks:
            return self.looks.pop(0)
        expected = {
            "grant_type": "client_credentials",
            "client_id": APP,
            "client_secret": self.secret,
            "scope": "https://api.botframework.com/.default",
        }
        if request.form() != expected:
            return ServedResponse.of({"error": "invalid_client", "error_description": "no"}, 401)
        self.tokens += 1
        return ServedResponse.of({"access_token": f"token-{self.tokens}", "expires_in": 3599})

    def _store(self, request: ServedRequest) -> ServedResponse:
        size = len(request.body)
        is_whole = request.headers.get("content-range") == f"bytes 0-{size - 1}/{size}"
        if request.method != "PUT" or not is_whole or "authorization" in request.headers:
            return self._fault(f"an upload to {request.path}")
        self.stored[request.path.rpartition("/")[2]] = request.body
        return ServedResponse.of({"id": "1"}, 201)

    def _act(self, request: ServedRequest) -> ServedResponse:
        match = _PATH.fullmatch(request.path)
        if match is None or request.method not in {"POST", "PUT"}:
            return self._fault(f"{request.method} {request.path}")
        conversation, edited = unquote(match[1]), match[2]
        body = request.json
        if body["type"] == "typing":
            self.typed.append(conversation)
            return ServedResponse(b"", 202)
        if not self._is_sendable(body, conversation):
            return self._fault(f"a message to {conversation}: {body}")
        if not self.planned:
            return self._show(conversation, edited, body)
        response, is_after = self.planned.pop(0)
        if is_after:
            self._show(conversation, edited, body)
        return response

    def _show(
        self, conversation: str, edited: str | None, body: Mapping[str, Any]
    ) -> ServedResponse:
        self._count += 1
        message = TeamsMessage(conversation, edited or f"sent-{self._count}", body)
        self.messages.append(message)
        self._changed.set()
        self._changed = anyio.Event()
        return ServedResponse.of({"id": message.id}, 200 if edited else 201)

    def _is_sendable(self, body: Mapping[str, Any], conversation: str) -> bool:
        clean = _TAG.sub("", body.get("text", "").replace("<br>", ""))
        return (
            body.keys() <= _FIELDS
            and body["from"]["id"] == _BOT
            and body["conversation"]["id"] == conversation
            and body["textFormat"] == "xml"
            and "<" not in clean
            and (clean != "" or bool(body.get("attachments")))
            and len(msgspec.json.encode(body)) <= _MAX_BYTES
        )

    def _fault(self, fault: str) -> ServedResponse:
        self.faults.append(fault)
        return ServedResponse.of({"error": {"code": "BadSyntax", "message": "bad"}}, 400)
