"""Strict Discord server on loopback: HTTP API and gateway of one bot, one server and its people."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.testing import discord_objects as objects
from skerry.testing.discord_gateway import DiscordGateway
from skerry.testing.discord_objects import APPLICATION, BOT, GUILD, ROOM, THREAD, TOKEN
from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve

_ROLES: Final = ("71", "72")
_REACTION: Final = r"/channels/(\d+)/messages/(\d+)/reactions/([^/]+)/@me"


_NO_CONTENT: Final = ServedResponse(status=204, content_type="text/html; charset=utf-8")


@dataclass(frozen=True, slots=True)
class DiscordPost:
    """A message of the bot, or its new text."""

    channel: str
    text: str
    id: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """Planned response to the next matching request."""

    method: str
    path: str
    """Regular expression of the path."""
    response: ServedResponse
    after: bool = False
    """Carries out the request before."""


@dataclass(slots=True)
class DiscordServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    gateway: DiscordGateway = field(default_factory=DiscordGateway)
    posted: list[DiscordPost] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    answered: dict[str, Any] = field(default_factory=dict)
    """Responses to interactions, by id."""
    menu: list[Any] | None = None
    """The menu of commands; None until it is set."""
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which Discord would refuse."""
    planned: list[PlannedAnswer] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    revoked: bool = False
    starts_left: int = 1000
    names: dict[str, str] = field(default_factory=lambda: {"7": "Alice"})
    """Display names of people, by id."""
    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages by id, oldest first."""
    _nonces: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle, on_socket=self.gateway.serve) as address:
            self.root = f"{address}/api/v10"
            self.gateway.url = address.replace("http:", "ws:")
            yield self
        self.faults += self.gateway.faults

    # Actions of people.

    def say(self, text: str, *, channel: str = "700", user: str = "7", **fields: Any) -> str:
        """Sends a message from a person; returns its id."""
        return str(self._add_message(text, channel, user, fields)["id"])

    def edit(self, number: str, text: str, edited: str = "2023-11-15T00:00:00+00:00") -> None:
        """Edits a message as a person."""
        message = self.stored[number]
        message |= {"content": text, "edited_timestamp": edited}
        self.gateway.dispatch("MESSAGE_UPDATE", message | self._extra(message["channel_id"]))

    def delete(self, number: str) -> None:
        """Deletes a message as a person."""
        message = self.stored[number]
        deleted = {"id": number, "channel_id": message["channel_id"]}
        self.gateway.dispatch("MESSAGE_DELETE", deleted | self._extra(message["channel_id"]))

    def press(self, number: str, command: str, user: str = "7") -> str:
        """Presses a button below a message of the bot; returns the id of the interaction."""
        message = self.stored[number]
        below = [
            component["custom_id"]
            for row in message["components"]
            for component in row["components"]
        ]
        if command not in below:
            raise ValueError(f"{command!r} is not one of the buttons {below}")
        data = {"custom_id": command, "component_type": 2}
        return self._act(3, data, message["channel_id"], user, message=message)

    def choose(self, name: str, arguments: str = "", channel: str = "700", user: str = "7") -> str:
        """Chooses a command of the menu as a person; returns the id of the interaction."""
        data: dict[str, Any] = {"id": "1", "name": name, "type": 1}
        if arguments:
            data["options"] = [{"name": "arguments", "type": 3, "value": arguments}]
        return self._act(2, data, channel, user)

    def file(self, name: str, data: bytes, mime: str = "text/plain") -> dict[str, Any]:
        """Returns a file for `say(attachments=[...])`."""
        self.files[name] = data
        url = self.root.replace("/api/v10", f"/attachments/{name}")
        about = {"filename": name, "size": len(data), "content_type": mime}
        return {"id": self._number(), **about, "url": url, "proxy_url": url}

    def fail(self, method: str, path: str, status: int, message: str = "no", **fields: Any) -> None:
        """Refuses the next matching request; `path` is a regular expression."""
        body = msgspec.json.encode({"code": 0, **fields, "message": message})
        self.planned.append(PlannedAnswer(method, path, ServedResponse(body, status)))

    def texts(self, channel: str = "700") -> list[str]:
        """Returns the texts of the bot's messages in a channel."""
        return [
            objects.displayed(message["content"])
            for message in self.stored.values()
            if (message["channel_id"], message["author"]["id"]) == (channel, BOT)
        ]

    async def wait_for(self, count: int, channel: str = "700") -> list[str]:
        """Waits until a channel has `count` messages of the bot; returns their texts."""
        with anyio.fail_after(60):
            while len(texts := self.texts(channel)) < count:
                await self.gateway.changed()
        return texts

    def _number(self) -> str:
        self._count += 1
        return objects.snowflake(self._count)

    def _person(self, user: str) -> dict[str, Any]:
        return objects.person(user, self.names.get(user, f"user{user}"), bot=user == BOT)

    def _extra(self, channel: str) -> dict[str, Any]:
        """Returns the additional fields of message events in channels of the server."""
        if channel not in {ROOM, THREAD}:
            return {}
        return {"guild_id": GUILD, "member": objects.member(None, _ROLES)}

    def _add_message(
        self, text: str, channel: str, user: str, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        message = objects.message(self._number(), channel, self._person(user), text) | dict(fields)
        self.stored[message["id"]] = message
        self.gateway.dispatch("MESSAGE_CREATE", message | self._extra(channel))
        return message

    def _act(self, kind: int, data: dict[str, Any], channel: str, user: str, **fields: Any) -> str:
        number, person = self._number(), self._person(user)
        act = {"id": number, "application_id": APPLICATION, "type": kind, "token": f"t{number}"}
        place_fields = {"channel_id": channel, "channel": objects.channel(channel, self.names)}
        locale = {"version": 1, "locale": "en-US", "entitlements": [], "attachment_size_limit": 1}
        owner: dict[str, Any] = {"user": person}
        if channel in {ROOM, THREAD}:
            owner = {"guild_id": GUILD, "member": objects.member(person, _ROLES)}
        event = {**act, **place_fields, **locale, **owner, "data": data, **fields}
        self.gateway.dispatch("INTERACTION_CREATE", event)
        return number

    # Requests of the bot.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        if request.path.startswith("/attachments/"):
            data = self.files.get(request.path.rpartition("/")[2])
            return ServedResponse(data or b"", 200 if data else 404, "application/octet-stream")
        path = request.path.removeprefix("/api/v10")
        self.calls.append(f"{request.method} {path}")
        agent = request.headers.get("user-agent", "")
        if self.revoked or request.headers.get("authorization") != f"Bot {TOKEN}":
            return ServedResponse.of({"message": "401: Unauthorized", "code": 0}, 401)
        if not agent.startswith("DiscordBot ("):
            return self._fault(f"user-agent {agent}", 403)
        plan = next(
            (planned for planned in self.planned if _fits(planned, request.method, path)), None
        )
        if plan is not None:
            self.planned.remove(plan)
            if plan.after:
                self._answer(request, path)
            return plan.response
        return self._answer(request, path)

    def _answer(self, request: ServedRequest, path: str) -> ServedResponse:
        for method, pattern, handle in self._routes():
            match = re.fullmatch(pattern, path)
            if match is not None and method == request.method:
                return handle(request, *match.groups())
        return self._fault(f"{request.method} {path} is unknown", 404)

    def _routes(self) -> tuple[tuple[str, str, Callable[..., ServedResponse]], ...]:
        return (
            ("GET", r"/users/@me", self._me),
            ("POST", r"/users/@me/channels", self._direct),
            ("GET", r"/(?:oauth2/)?applications/@me", self._application),
            ("PUT", r"/applications/(\d+)/commands", self._commands),
            ("GET", r"/gateway/bot", self._gateway),
            ("GET", r"/channels/(\d+)", self._channel),
            ("GET", r"/guilds/(\d+)/members/(\d+)", self._member),
            ("POST", r"/channels/(\d+)/typing", self._typing),
            ("POST", r"/channels/(\d+)/messages", self._post),
            ("GET", r"/channels/(\d+)/messages", self._history),
            ("GET", r"/channels/(\d+)/messages/(\d+)", self._message),
            ("PATCH", r"/channels/(\d+)/messages/(\d+)", self._edit),
            ("PUT", _REACTION, self._react),
            ("DELETE", _REACTION, self._unreact),
            ("POST", r"/interactions/(\d+)/([^/]+)/callback", self._interaction),
        )

    def _fault(self, reason: str, status: int = 400, code: int = 50035) -> ServedResponse:
        self.faults.append(reason)
        self.gateway.wake()
        return ServedResponse.of({"message": reason, "code": code}, status)

    def _me(self, _: ServedRequest) -> ServedResponse:
        return ServedResponse.of(objects.person(BOT, "house", bot=True))

    def _application(self, _: ServedRequest) -> ServedResponse:
        about = {"name": "house", "icon": None, "description": "", "summary": "", "flags": 0}
        rights = {"bot_public": True, "bot_require_code_grant": False, "verify_key": "00"}
        return ServedResponse.of({"id": APPLICATION, **about, **rights, "owner": self._person("7")})

    def _gateway(self, _: ServedRequest) -> ServedResponse:
        limit = {"total": 1000, "remaining": self.starts_left, "max_concurrency": 1}
        limit["reset_after"] = 60_000
        url = f"{self.gateway.url}/gateway"
        return ServedResponse.of({"url": url, "shards": 1, "session_start_limit": limit})

    def _commands(self, request: ServedRequest, application: str) -> ServedResponse:
        names = [command["name"] for command in request.json]
        fits = all(re.fullmatch(r"[-_a-z0-9]{1,32}", name) for name in names)
        if application != APPLICATION or not fits or len(set(names)) != len(names):
            return self._fault("commands: Invalid Form Body")
        if any(not 0 < len(command["description"]) <= 100 for command in request.json):  # noqa: PLR2004 - Discord's limit
            return self._fault("commands: Must be between 1 and 100 in length.")
        self.menu = request.json
        self.gateway.wake()
        return ServedResponse.of(self.menu)

    def _direct(self, request: ServedRequest) -> ServedResponse:
        return ServedResponse.of(objects.channel(f"{request.json['recipient_id']}00", self.names))

    def _channel(self, _: ServedRequest, number: str) -> ServedResponse:
        return ServedResponse.of(objects.channel(number, self.names))

    def _member(self, _: ServedRequest, guild: str, user: str) -> ServedResponse:
        if guild != GUILD:
            return self._fault("Unknown Guild", 404, 10004)
        return ServedResponse.of(objects.member(self._person(user), _ROLES))

    def _typing(self, _: ServedRequest, channel: str) -> ServedResponse:
        self.typed.append(channel)
        return _NO_CONTENT

    def _post(self, request: ServedRequest, channel: str) -> ServedResponse:
        upload: str | UploadedFile | None = None
        if request.headers.get("content-type", "").startswith("multipart/"):
            form = request.form()
            upload = form.get("files[0]")
            body = msgspec.json.decode(str(form["payload_json"]))
        else:
            body = request.json
        has_file = isinstance(upload, UploadedFile)
        faults = objects.faults("create", body, is_new=True, has_file=has_file)
        if faults:
            return self._fault("; ".join(faults))
        earlier = self._nonces.get(body["nonce"])
        if earlier is not None:
            return ServedResponse.of(self.stored[earlier] | {"nonce": body["nonce"]})
        fields: dict[str, Any] = {
            name: body[name] for name in ("components", "flags", "poll") if name in body
        }
        if isinstance(upload, UploadedFile):
            fields["attachments"] = [self.file(upload.name, upload.data, upload.mime)]
        message = self._add_message(body.get("content", "").strip(), channel, BOT, fields)
        self._nonces[body["nonce"]] = message["id"]
        text = objects.displayed(message["content"])
        self.posted.append(DiscordPost(channel, text, message["id"], body))
        return ServedResponse.of(message | {"nonce": body["nonce"]})

    def _history(self, request: ServedRequest, channel: str) -> ServedResponse:
        after, limit = int(request.query.get("after", "0")), int(request.query.get("limit", "50"))
        messages = [
            message
            for message in self.stored.values()
            if message["channel_id"] == channel and int(message["id"]) > after
        ]
        page = messages[:limit] if after else messages[-limit:]
        return ServedResponse.of(page[::-1])

    def _message(self, _: ServedRequest, channel: str, number: str) -> ServedResponse:
        message = self.stored.get(number)
        if message is None or message["channel_id"] != channel:
            return self._fault("Unknown Message", 404, 10008)
        return ServedResponse.of(message)

    def _edit(self, request: ServedRequest, channel: str, number: str) -> ServedResponse:
        message = self.stored.get(number)
        if message is None or message["channel_id"] != channel or message["author"]["id"] != BOT:
            return self._fault("Unknown Message", 404, 10008)
        faults = objects.faults("edit", request.json, is_new=False, has_file=False)
        if faults:
            return self._fault("; ".join(faults))
        message |= {
            name: request.json[name] for name in ("content", "components") if name in request.json
        }
        if "content" in request.json:
            text = objects.displayed(message["content"])
            self.posted.append(DiscordPost(channel, text, number, request.json))
        self.gateway.wake()
        return ServedResponse.of(message)

    def _react(
        self, request: ServedRequest, channel: str, number: str, emoji: str
    ) -> ServedResponse:
        message = self.stored.get(number)
        if message is None or message["channel_id"] != channel:
            return self._fault("Unknown Message", 404, 10008)
        reactions = message.setdefault("reactions", [])
        if request.method == "PUT" and emoji.isascii():
            return self._fault("Unknown Emoji", 400, 10014)
        if request.method == "PUT":
            reactions.append({"emoji": {"id": None, "name": emoji}, "count": 1, "me": True})
        else:
            message["reactions"] = [
                reaction for reaction in reactions if reaction["emoji"]["name"] != emoji
            ]
        return _NO_CONTENT

    def _unreact(
        self, request: ServedRequest, channel: str, number: str, emoji: str
    ) -> ServedResponse:
        return self._react(request, channel, number, emoji)

    def _interaction(self, request: ServedRequest, number: str, token: str) -> ServedResponse:
        if token != f"t{number}":
            return self._fault("Unknown interaction", 404, 10062)
        if number in self.answered:
            refused = {"message": "Interaction has already been acknowledged.", "code": 40060}
            return ServedResponse.of(refused, 400)
        self.answered[number] = request.json
        self.gateway.wake()
        return _NO_CONTENT


def _fits(plan: PlannedAnswer, method: str, path: str) -> bool:
    return plan.method == method and re.fullmatch(plan.path, path) is not None
