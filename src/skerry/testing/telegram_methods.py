"""Checks requests to the Bot API strictly: methods, parameters, types, HTML."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from typing import Any, Final

from skerry.testing.http_server import UploadedFile

_INT, _STR, _BOOL, _LIST, _OBJ, _FILE = "int", "str", "bool", "list", "object", "file"
_TARGET: Final = {"chat_id": _INT, "message_thread_id": _INT}
_SENDING: Final = {
    **_TARGET,
    "parse_mode": _STR,
    "disable_notification": _BOOL,
    "reply_parameters": _OBJ,
    "reply_markup": _OBJ,
}
_MEDIA: Final = {**_SENDING, "caption": _STR}
METHODS: Final[Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]]] = {
    "getMe": ({}, ()),
    "getUpdates": (
        {"offset": _INT, "limit": _INT, "timeout": _INT, "allowed_updates": _LIST},
        (),
    ),
    "setMyCommands": ({"commands": _LIST, "scope": _OBJ}, ("commands",)),
    "deleteMyCommands": ({"scope": _OBJ}, ()),
    "deleteWebhook": ({"drop_pending_updates": _BOOL}, ()),
    "getFile": ({"file_id": _STR}, ("file_id",)),
    "sendMessage": (
        {**_SENDING, "text": _STR, "link_preview_options": _OBJ},
        ("chat_id", "text"),
    ),
    "editMessageText": (
        {
            "chat_id": _INT,
            "message_id": _INT,
            "text": _STR,
            "parse_mode": _STR,
            "link_preview_options": _OBJ,
            "reply_markup": _OBJ,
        },
        ("chat_id", "message_id", "text"),
    ),
    "editMessageReplyMarkup": (
        {"chat_id": _INT, "message_id": _INT, "reply_markup": _OBJ},
        ("chat_id", "message_id"),
    ),
    "sendChatAction": ({**_TARGET, "action": _STR}, ("chat_id", "action")),
    "setMessageReaction": (
        {"chat_id": _INT, "message_id": _INT, "reaction": _LIST, "is_big": _BOOL},
        ("chat_id", "message_id"),
    ),
    "answerCallbackQuery": (
        {"callback_query_id": _STR, "text": _STR, "show_alert": _BOOL},
        ("callback_query_id",),
    ),
    "sendPoll": (
        {
            **_TARGET,
            "question": _STR,
            "options": _LIST,
            "allows_multiple_answers": _BOOL,
            "is_anonymous": _BOOL,
            "open_period": _INT,
            "disable_notification": _BOOL,
            "reply_parameters": _OBJ,
        },
        ("chat_id", "question", "options"),
    ),
    "sendPhoto": ({**_MEDIA, "photo": _FILE}, ("chat_id", "photo")),
    "sendDocument": ({**_MEDIA, "document": _FILE}, ("chat_id", "document")),
    "sendAudio": ({**_MEDIA, "audio": _FILE}, ("chat_id", "audio")),
    "sendVideo": ({**_MEDIA, "video": _FILE}, ("chat_id", "video")),
    "sendVoice": ({**_MEDIA, "voice": _FILE}, ("chat_id", "voice")),
}
_KINDS: Final = {
    _INT: int,
    _STR: str,
    _BOOL: bool,
    _LIST: list,
    _OBJ: dict,
    _FILE: (UploadedFile, str),
}
_TAGS: Final = {"a", "b", "blockquote", "code", "i", "pre", "s", "tg-spoiler", "u"}
_ENTITY: Final = re.compile(r"&(?!(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);)")
_MAX_DATA: Final = 64
_MAX_DESCRIPTION: Final = 256
_COMMAND: Final = re.compile(r"[a-z0-9_]{1,32}")


class BadRequestError(Exception):
    """The Bot API refuses a request."""

    def __init__(self, description: str, status: int = 400) -> None:
        self.status = status
        super().__init__(description)


def check(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a method.

    Raises:
        BadRequestError: the method, a parameter or a type is wrong.
    """
    if method not in METHODS:
        raise BadRequestError("Not Found: method not found", 404)
    accepted, required = METHODS[method]
    for name, value in params.items():
        if name not in accepted:
            raise BadRequestError(f"Bad Request: unknown parameter {name}")
        is_valid = isinstance(value, _KINDS[accepted[name]])  # type: ignore[arg-type]  # a table of types
        if not is_valid or (accepted[name] == _INT and isinstance(value, bool)):
            raise BadRequestError(f"Bad Request: {name} is not of type {accepted[name]}")
    if missing := [name for name in required if name not in params]:
        raise BadRequestError(f"Bad Request: parameter {missing[0]} is required")
    if params.get("parse_mode", "HTML") != "HTML":
        raise BadRequestError("Bad Request: unsupported parse_mode")
    _check_keyboard(params.get("reply_markup", {}))
    _check_menu(params.get("commands", ()))
    return params


def _check_menu(commands: Sequence[dict[str, str]]) -> None:
    for command in commands:
        text = command["description"]
        if not _COMMAND.fullmatch(command["command"]) or not 0 < len(text) <= _MAX_DESCRIPTION:
            raise BadRequestError("Bad Request: BOT_COMMAND_INVALID")


def _check_keyboard(markup: Mapping[str, Any]) -> None:
    for row in markup.get("inline_keyboard", ()):
        for button in row:
            if button.keys() != {"text", "callback_data"} or not button["text"]:
                raise BadRequestError("Bad Request: can't parse inline keyboard button")
            if not 1 <= len(button["callback_data"].encode()) <= _MAX_DATA:
                raise BadRequestError("Bad Request: BUTTON_DATA_INVALID")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        allowed = {"a": {"href"}, "code": {"class"}, "blockquote": {"expandable"}}.get(tag, set())
        if tag not in _TAGS or {name for name, _ in attrs} - allowed:
            raise BadRequestError(f'Bad Request: can\'t parse entities: Unsupported tag "{tag}"')
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise BadRequestError(f"Bad Request: can't parse entities: Unmatched end tag {tag}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_entityref(self, name: str) -> None:
        self.text += unescape(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.text += unescape(f"&#{name};")


def parsed_html(text: str) -> str:
    """Returns the text that people see.

    Raises:
        BadRequestError: it is not HTML that the Bot API accepts.
    """
    if _ENTITY.search(text):
        raise BadRequestError("Bad Request: can't parse entities: Unsupported entity")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    if reader.open:
        raise BadRequestError(f"Bad Request: can't parse entities: Can't find end of {reader.open}")
    return reader.text


def utf16_length(text: str) -> int:
    """Returns the length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
