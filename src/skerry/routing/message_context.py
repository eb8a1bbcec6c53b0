"""Builds the context of a platform message for a model: trusted facts and untrusted text (pure).

Facts are verified by the platform: ids, kinds and times. Names, titles and quotes are chosen by
people, so they are in the untrusted part, also for messages of the owner.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from skerry.model.inbound import InboundMessage, PeerKind, Quoted
from skerry.model.message import MessageContext
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.policy.folding import visible

_MAX_ID: Final = 128
_MAX_NAME: Final = 64
MAX_QUOTE: Final = 500
"""Limit on the characters of a quoted message, and of a message of the history."""
FORWARDED: Final = "[I forward you a message that somebody else wrote.]"
"""Text of a forwarded message, whose words are in the context."""
_BRACKETS: Final = str.maketrans("[]", "()")


class HistoryLine(msgspec.Struct, frozen=True):
    """One group message that was not addressed to the agent."""

    serial: int
    name: str
    """Name of the sender; the id without a name."""
    text: str


def context_of(
    message: InboundMessage,
    origin: Origin,
    *,
    mentioned: bool,
    history: Sequence[HistoryLine] = (),
    passed_on: str = "",
) -> MessageContext:
    """Returns the facts about a message, and the untrusted text of its context.

    `passed_on` is quoted or forwarded text, which the sender did not write.
    """
    lines = _quoted(message, origin, history)
    if message.forwarded:
        lines += ["The message that is forwarded:", passed_on]
    elif passed_on:
        lines += ["The message with what it quotes or forwards:", passed_on]
    return MessageContext(
        _facts(message, origin, mentioned=mentioned, history=len(history)), "\n".join(lines)
    )


def in_context(
    request: RunRequest,
    arrived: InboundMessage,
    author: Origin,
    *,
    mentioned: bool,
    history: Sequence[HistoryLine],
) -> RunRequest:
    """Returns the request of a platform message with its context for the model.

    Quoted and forwarded text is moved to the context, so that it cannot be a command or directive.
    """
    words = request.text
    passed_on = words if arrived.forwarded else arrived.passed_on
    context = context_of(arrived, author, mentioned=mentioned, history=history, passed_on=passed_on)
    return msgspec.structs.replace(
        request, text=FORWARDED if arrived.forwarded else words, context=context
    )


def _facts(message: InboundMessage, origin: Origin, *, mentioned: bool, history: int) -> str:
    reply, is_group = message.reply, message.peer.kind is not PeerKind.DIRECT
    is_own = reply is not None and reply.is_me and origin is Origin.OWNER
    facts: dict[str, Any] = {
        "channel": message.channel,
        "chat_type": message.peer.kind.value,
        "chat_id": _id(message.peer.id) if is_group else "",
        "thread_id": _id(message.thread_id or ""),
        "sender_id": _id(message.sender_id),
        "sender_is_owner": origin is Origin.OWNER,
        "message_id": _id(message.message_id),
        "sent_at": _time(message.sent_at),
        "edited": message.edited,
        "forwarded": message.forwarded,
        "mentioned": mentioned,
        "reply_to_id": _id(reply.id) if reply else "",
        "reply_to_you": _line(reply.text, MAX_QUOTE) if reply and is_own else "",
        "history_count": history,
    }
    present = {name: value for name, value in facts.items() if value}
    return msgspec.json.encode(present).decode().replace("<", "\\u003c")


def _quoted(message: InboundMessage, origin: Origin, history: Sequence[HistoryLine]) -> list[str]:
    lines = []
    if origin is not Origin.OWNER:
        if name := sender_name(message):
            lines.append(f"Sender: {name}")
        if message.group_name:
            lines.append(f"Group: {_line(message.group_name, _MAX_NAME)}")
    lines += _answered(message.reply, origin)
    if history:
        lines.append("Messages of the group since your last answer, oldest first:")
        lines += [f"  [{line.name}] {line.text}" for line in history]
    return lines


def _answered(reply: Quoted | None, origin: Origin) -> list[str]:
    if reply is None or (reply.is_me and (not reply.text or origin is Origin.OWNER)):
        return []
    # On some platforms the sender supplies the quoted text, which may be false.
    author = "yours, which its sender quotes so" if reply.is_me else _author(reply)
    return [f"It answers a message of {author}:", f"  {_line(reply.text, MAX_QUOTE)}"]


def sender_name(message: InboundMessage) -> str:
    """Returns the sender's names in one line without brackets; empty without a name."""
    name = _line(message.sender_name, _MAX_NAME)
    username = _line(message.sender_username, _MAX_NAME)
    if name and username:
        return f"{name} (@{username})"
    return name or (f"@{username}" if username else "")


def history_line(message: InboundMessage) -> tuple[str, str]:
    """Returns the sender and the text of a message for the history, each in one line."""
    return sender_name(message) or _id(message.sender_id), _line(message.text, MAX_QUOTE)


def _author(quoted: Quoted) -> str:
    return _line(quoted.sender_name, _MAX_NAME) or _id(quoted.sender_id) or "somebody"


def _id(text: str) -> str:
    return _line(text, _MAX_ID)


def _line(text: str, limit: int) -> str:
    flat = " ".join(visible(text).split()).translate(_BRACKETS)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _time(milliseconds: int) -> str:
    if milliseconds <= 0 or milliseconds > 1 << 45:
        return ""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat().replace("+00:00", "Z")
