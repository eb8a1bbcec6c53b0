"""Strict Telegram Bot API on loopback: stores updates of people, logs requests of bots.

Unknown methods and parameters, wrong types, texts beyond the limits and broken HTML are refused as
the Bot API refuses them, and recorded in `faults`. As a program,
`python -m skerry.testing.telegram_server --port P` reads commands as JSON lines on stdin.
"""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.infra.clock import SystemClock
from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve
from skerry.testing.telegram_methods import (
    BadRequestError,
    check,
    parsed_html,
    utf16_length,
)

TOKEN: Final = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"  # noqa: S105 - of no bot
BOT_ID: Final = 110201543
_MAX_CAPTION: Final = 1024
_SAME: Final = "message is not modified"
"""Response to an edit without a change, which is not a fault of the bot."""
_CAPTION: Final = ("caption", _MAX_CAPTION)
_TEXTS: Final = {
    "sendMessage": ("text", 4096),
    "editMessageText": ("text", 4096),
    "sendPoll": ("question", 300),
    "sendPhoto": _CAPTION,
    "sendDocument": _CAPTION,
    "sendVoice": _CAPTION,
    "sendAudio": _CAPTION,
    "sendVideo": _CAPTION,
}
"""Parameter with the visible text of each method, and its limit."""


@dataclass(frozen=True, slots=True)
class TelegramSent:
    """One request of a bot that people can see."""

    method: str
    chat: int
    text: str
    """Visible text, without markup."""
    message_id: int
    params: Mapping[str, Any]
    at: float = 0.0


@dataclass(slots=True)
class Fault:
    """Planned response to the next request of a method."""

    method: str
    response: ServedResponse
    after: bool = False
    """Carries out the request before."""


@dataclass(slots=True)
class TelegramServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    port: int = 0
    token: str = TOKEN
    username: str = "house_bot"
    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    sent: list[TelegramSent] = field(default_factory=list)
    """Visible messages and edits of the bot, in order."""
    actions: list[int] = field(default_factory=list)
    """Chat of each typing signal."""
    menus: dict[str, list[str]] = field(default_factory=dict)
    """Commands of the menu by chat, or by the type of their scope."""
    calls: list[str] = field(default_factory=list)
    """Called methods, in order."""
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which the Bot API would refuse."""
    planned: list[Fault] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """Files from people, by id."""
    revoked: bool = False
    """Refuses the token."""
    _updates: list[dict[str, Any]] = field(default_factory=list)
    _next_update: int = 1000
    _next_message: int = 1
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _posted: anyio.Event = field(default_factory=anyio.Event)
    _poll: int = 0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle, self.port) as self.root:
            yield self

    # Actions of people.

    def say(
        self,
        text: str,
        *,
        user: int = 7,
        chat: int | None = None,
        name: str = "Ada",
        **fields: Any,
    ) -> int:
        """Sends a message from a person; a negative chat is a group. Returns the message's id."""
        message = self._message(user, user if chat is None else chat, name)
        message |= {"text": text} if text else {}
        message |= fields
        self.update(message=message)
        return int(message["message_id"])

    def press(self, data: str, message_id: int, *, user: int = 7, chat: int | None = None) -> None:
        """Presses a button below a message as a person."""
        message = self._message(user, user if chat is None else chat, "Ada")
        below = message | {"message_id": message_id, "from": self._me()}
        query = {"id": f"q{self._next_update}", "from": message["from"], "chat_instance": "1"}
        self.update(callback_query=query | {"message": below, "data": data})

    def upload(self, data: bytes) -> dict[str, Any]:
        """Stores a file; returns the fields that name it."""
        file_id = f"file-{len(self.files)}"
        self.files[file_id] = data
        return {"file_id": file_id, "file_unique_id": f"u-{file_id}", "file_size": len(data)}

    def update(self, **kind: Any) -> int:
        """Adds an update; returns its id."""
        self._next_update += 1
        self._updates.append({"update_id": self._next_update, **kind})
        self._arrived.set()
        self._arrived = anyio.Event()
        return self._next_update

    def repeat(self) -> None:
        """Sends the last update again, with a new number."""
        last = {key: value for key, value in self._updates[-1].items() if key != "update_id"}
        self.update(**last)

    @property
    def unconfirmed(self) -> int:
        """Returns the number of updates that the bot has not confirmed."""
        return len(self._updates)

    def texts(self, chat: int = 7) -> list[str]:
        """Returns the texts of the bot in a chat, with edits applied."""
        texts: dict[int, str] = {}
        for sent in self.sent:
            if sent.chat == chat:
                texts[sent.message_id] = sent.text
        return list(texts.values())

    async def wait_for(self, count: int, chat: int = 7) -> list[str]:
        """Waits until a chat has `count` messages of the bot; returns their texts."""
        with anyio.fail_after(60):
            while len(texts := self.texts(chat)) < count:
                await self._posted.wait()
        return texts

    def fail(self, method: str, status: int, description: str, **parameters: int) -> None:
        """Refuses the next request of a method, as the Bot API does."""
        body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
        if parameters:
            body["parameters"] = parameters
        self.planned.append(Fault(method, ServedResponse.of(body, status)))

    # Requests of the bot.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        prefix, _, method = request.path.removeprefix("/").partition("/")
        if prefix == "file" and method.startswith(f"bot{self.token}/"):
            data = self.files.get(method.rpartition("/")[2])
            if data is None:
                return ServedResponse(b"", 404)
            return ServedResponse(data, 200, "application/octet-stream")
        if prefix != f"bot{self.token}" or self.revoked:
            return _refused(401, "Unauthorized")
        self.calls.append(method)
        plan = next((plan for plan in self.planned if plan.method in {method, "*"}), None)
        if plan is not None:
            self.planned.remove(plan)
            if plan.after:
                await self._answer(request, method)
            return plan.response
        return await self._answer(request, method)

    async def _answer(self, request: ServedRequest, method: str) -> ServedResponse:
        try:
            params = check(method, _params(request))
            result = await self._call(method, params)
        except BadRequestError as error:
            if not str(error).endswith(_SAME):
                self.faults.append(f"{method}: {error}")
            return _refused(error.status, str(error))
        return ServedResponse.of({"ok": True, "result": result})

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        if method in _TEXTS:
            name, limit = _TEXTS[method]
            return self._sent(method, params, params.get(name, ""), limit)
        match method:
            case "getMe":
                return self._me() | {"can_join_groups": True, "can_read_all_group_messages": False}
            case "getUpdates":
                return await self._get_updates(params)
            case "getFile":
                return self._file(params["file_id"])
            case "setMyCommands" | "deleteMyCommands":
                scope = params.get("scope", {"type": "default"})
                names = [command["command"] for command in params.get("commands", ())]
                self.menus[str(scope.get("chat_id", scope["type"]))] = names
            case "sendChatAction":
                self.actions.append(params["chat_id"])
            case "setMessageReaction":
                emoji = "".join(kind.get("emoji", "") for kind in params.get("reaction", ()))
                self._log(method, params, emoji, -params["message_id"])
        return True

    def _file(self, file_id: str) -> dict[str, Any]:
        if file_id not in self.files:
            raise BadRequestError("Bad Request: wrong file_id")
        named = {"file_id": file_id, "file_unique_id": f"u-{file_id}"}
        return named | {"file_path": f"files/{file_id}"}

    async def _get_updates(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        self._poll += 1
        poll = self._poll
        if (offset := params.get("offset", 0)) > 0:
            self._updates = [update for update in self._updates if update["update_id"] >= offset]
        with anyio.move_on_after(params.get("timeout", 0)):
            while not self._updates and poll == self._poll:
                await self._arrived.wait()
        if poll != self._poll and params.get("timeout", 0):
            raise BadRequestError(
                "Conflict: terminated by other getUpdates request; make sure that only one bot"
                " instance is running",
                409,
            )
        kinds = params.get("allowed_updates")
        updates = [update for update in self._updates if not kinds or set(update) & set(kinds)]
        return updates[: params.get("limit", 100)]

    def _sent(self, method: str, params: dict[str, Any], text: str, limit: int) -> dict[str, Any]:
        visible = parsed_html(text) if params.get("parse_mode") == "HTML" else text
        if not visible.strip() and method in {"sendMessage", "editMessageText"}:
            raise BadRequestError("Bad Request: message text is empty")
        if utf16_length(visible) > limit:
            subject = "message caption" if limit == _MAX_CAPTION else "message"
            raise BadRequestError(f"Bad Request: {subject} is too long")
        if method == "editMessageText":
            message_id = params["message_id"]
            earlier = [sent for sent in self.sent if sent.message_id == message_id]
            if not earlier:
                raise BadRequestError("Bad Request: message to edit not found")
            if earlier[-1].text == visible:
                raise BadRequestError(f"Bad Request: {_SAME}")
        else:
            message_id = self._next_message
            self._next_message += 1
        self._log(method, params, visible, message_id)
        chat = {"id": params["chat_id"], "type": "private"}
        message = {"message_id": message_id, "date": SystemClock().now_ms() // 1000, "chat": chat}
        return message | {"from": self._me(), "text": visible}

    def _log(self, method: str, params: dict[str, Any], text: str, message_id: int) -> None:
        at = anyio.current_time()
        self.sent.append(TelegramSent(method, params["chat_id"], text, message_id, params, at))
        self._posted.set()
        self._posted = anyio.Event()

    def _me(self) -> dict[str, Any]:
        return {"id": BOT_ID, "is_bot": True, "first_name": "House", "username": self.username}

    def _message(self, user: int, chat: int, name: str) -> dict[str, Any]:
        sender = {"id": user, "is_bot": False, "first_name": name, "username": name.lower()}
        kind = {"id": chat, "type": "private", "first_name": name}
        if chat < 0:
            kind = {"id": chat, "type": "supergroup", "title": "Family"}
        message = {"message_id": self._next_message, "from": sender, "chat": kind}
        self._next_message += 1
        return message | {"date": SystemClock().now_ms() // 1000}


def _params(request: ServedRequest) -> dict[str, Any]:
    """Returns the parameters of a request: JSON, or a form with objects as JSON texts."""
    if not request.body:
        return dict(request.query)
    if request.headers.get("content-type", "").startswith("application/json"):
        decoded = request.json
        if not isinstance(decoded, dict):
            raise BadRequestError("Bad Request: object expected as params")
        return decoded
    params: dict[str, Any] = {}
    for key, text in request.form().items():
        params[key] = text
        if isinstance(text, UploadedFile):
            continue
        if text[:1] in {"{", "["} or text.lstrip("-").isdigit() or text in {"true", "false"}:
            params[key] = msgspec.json.decode(text)
    return params


def _refused(status: int, description: str) -> ServedResponse:
    return ServedResponse.of(
        {"ok": False, "error_code": status, "description": description}, status
    )


def main(arguments: Sequence[str]) -> int:
    """Serves until stdin ends; each line is `{"say": TEXT, "user": 7}` or `{"press": DATA}`."""
    parser = argparse.ArgumentParser(prog="python -m skerry.testing.telegram_server")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args(arguments)
    anyio.run(_main, options.port)
    return 0


async def _main(port: int) -> None:
    async with TelegramServer(port) as server, anyio.create_task_group() as tasks:
        _show({"apiRoot": server.root, "token": server.token})
        tasks.start_soon(_print_sent, server)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            command = json.loads(line)
            if "say" in command:
                server.say(command.pop("say"), **command)
            elif "press" in command:
                server.press(command.pop("press"), command.pop("message_id"), **command)
        tasks.cancel_scope.cancel()


async def _print_sent(server: TelegramServer) -> None:
    count = 0
    while True:
        for sent in server.sent[count:]:
            count += 1
            _show({"method": sent.method, "chat": sent.chat, "id": sent.message_id})
            _show({"text": sent.text, "keyboard": sent.params.get("reply_markup")})
        await anyio.sleep(0.05)


def _show(line: object) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - a program's output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
