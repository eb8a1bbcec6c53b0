"""Rules of signal-cli and of its REST bridge for requests to send."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final

_STYLE: Final = re.compile(r"(\d+):(\d+):(BOLD|ITALIC|STRIKETHROUGH|MONOSPACE)")
_URI: Final = re.compile(r"data:([^;,]+);filename=([^;,]+);base64,([A-Za-z0-9+/=]+)")
_RPC: Final = {
    "send": (
        {"message", "textStyle", "quoteTimestamp", "quoteAuthor", "quoteMessage"}
        | {"attachment", "voiceNote"}
    ),
    "sendTyping": set[str](),
    "sendReaction": {"targetTimestamp", "targetAuthor", "emoji", "remove"},
}
_BRIDGE_FIELDS: Final = {
    "/v2/send": (
        {"number", "recipients", "message", "text_mode", "base64_attachments"}
        | {"quote_timestamp", "quote_author", "quote_message"}
    ),
    "/v1/typing-indicator": {"recipient"},
    "/v1/reactions": {"recipient", "reaction", "target_author", "timestamp"},
}
_METHODS: Final = {
    "/v2/send": {"POST"},
    "/v1/typing-indicator": {"PUT"},
    "/v1/reactions": {"POST", "DELETE"},
}
_ESCAPES: Final = re.compile(r"\\([*~`|])|\*{1,3}|~|`|\|\|")


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A request to send a message, a reaction or a typing signal."""

    kind: str
    to: str
    """Number, or id of a group."""
    text: str = ""
    styles: tuple[str, ...] = ()
    file: bytes | None = None
    voice: bool = False
    author: str = ""
    """Author of the message for the quote or reaction."""
    target: int = 0
    """Time of that message."""
    removes: bool = False


def read_rpc(method: Any, params: dict[str, Any]) -> SendRequest | str:
    """Returns the parsed request to the daemon, or a text about its mistake."""
    allowed = _RPC.get(method)
    to = params.pop("recipient", None) or params.pop("groupId", None)
    if allowed is None or not params.keys() <= allowed or not isinstance(to, list) or len(to) != 1:
        return f"{method} has other parameters: {sorted(params)}"
    if method == "sendTyping":
        return SendRequest("typing", to[0])
    if method == "sendReaction":
        target = (params["targetAuthor"], params["targetTimestamp"], params["remove"])
        return _reaction(to[0], params["emoji"], *target)
    text, styles = params.get("message", ""), tuple(params.get("textStyle", ()))
    units = len(text.encode("utf-16-le")) // 2
    for style in styles:
        match = _STYLE.fullmatch(style)
        if match is None or int(match[1]) + int(match[2]) > units or not int(match[2]):
            return f"a style is wrong: {style}"
    quote = (params.get("quoteAuthor", ""), params.get("quoteTimestamp", 0))
    return _message(to[0], text, params.get("attachment"), quote, styles, params.get("voiceNote"))


def read_rest(method: str, path: str, body: dict[str, Any], number: str) -> SendRequest | str:
    """Returns the parsed request to the bridge, or a text about its mistake."""
    route = path if path == "/v2/send" else path.rpartition("/")[0]
    allowed = _BRIDGE_FIELDS.get(route)
    if allowed is None or method not in _METHODS[route] or not body.keys() <= allowed:
        return f"{method} {path}: {sorted(body)}"
    if route != "/v2/send" and path.rpartition("/")[2] != number:
        return f"{path} names another number"
    to = body["recipients"][0] if route == "/v2/send" else body["recipient"]
    if to.startswith("group."):
        to = base64.b64decode(to.removeprefix("group.")).decode()
    if route == "/v1/typing-indicator":
        return SendRequest("typing", to)
    if route == "/v1/reactions":
        target = (body["target_author"], body["timestamp"], method == "DELETE")
        return _reaction(to, body["reaction"], *target)
    if body["number"] != number or body.get("text_mode") != "styled":
        return "another number or text_mode"
    text = _ESCAPES.sub(lambda mark: mark[1] or "", body["message"])
    quote = (body.get("quote_author", ""), body.get("quote_timestamp", 0))
    return _message(to, text, body.get("base64_attachments"), quote)


def _reaction(to: str, emoji: str, author: str, target: int, removes: Any) -> SendRequest | str:
    if not emoji or not author or target <= 0 or not isinstance(removes, bool):
        return "a reaction without an emoji or a message"
    return SendRequest("reaction", to, emoji, author=author, target=target, removes=removes)


def _message(
    to: str,
    text: str,
    files: Any,
    quote: tuple[str, int],
    styles: tuple[str, ...] = (),
    voice: Any = None,
) -> SendRequest | str:
    data = None
    if files is not None:
        match = _URI.fullmatch(files[0])
        try:
            data = base64.b64decode(match[3], validate=True) if match else None
        except binascii.Error:
            data = None
        if data is None or len(files) != 1:
            return "an attachment is wrong"
    if not text and data is None:
        return "an empty message"
    if bool(quote[0]) != bool(quote[1]):
        return "a quote without an author"
    return SendRequest("message", to, text, styles, data, bool(voice), *quote)
