"""Joins messages that waited for the same turn to one prompt (pure).

Wording: openclaw-behaviour 5.3.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from skerry.model.message import MessageContext, TextBlock, UserMessage
from skerry.model.run import RunRequest

TITLE: Final = "[Queued messages while agent was busy]"
OVERFLOW: Final = "[Queue overflow]"
_NEXT: Final = re.compile(r"(?:\A|\n\n)---\nQueued #\d+(?:\n(?!\n---\nQueued #)|(?=\n)|\Z)")
LINE_LENGTH: Final = 160


def collected_prompt(
    requests: Sequence[RunRequest], dropped: int, unseen: int, at: int
) -> UserMessage:
    """Returns one message with those of several requests, and the contexts of them.

    Args:
        requests: The requests, oldest first.
        dropped: Number of first requests that have only one line.
        unseen: Number of further messages that were dropped without a line.
        at: Time of the message, in milliseconds since 1970.

    """
    shown = requests[dropped:]
    texts = [TITLE] if shown else []
    if dropped:
        texts.append(summary([request.text for request in requests[:dropped]], unseen))
    texts += [f"---\nQueued #{n}\n{request.text}".strip() for n, request in enumerate(shown, 1)]
    images = tuple(image for request in shown for image in request.images)
    origins = [request.text_origin for request in requests if request.text_origin is not None]
    origin = origins[-1] if origins else requests[-1].origin
    return UserMessage((TextBlock("\n\n".join(texts)), *images), at, origin, _contexts(shown))


def _contexts(requests: Sequence[RunRequest]) -> MessageContext | None:
    """Returns the contexts of several messages, each with the number of its message."""
    contexts = [
        (number, request.context)
        for number, request in enumerate(requests, 1)
        if request.context is not None
    ]
    if not contexts:
        return None
    facts: list[Any] = [
        {"queued": number, "facts": msgspec.Raw(context.facts.encode())}
        for number, context in contexts
        if context.facts
    ]
    quoted = [
        f"Context of queued #{number}:\n{context.quoted}"
        for number, context in contexts
        if context.quoted
    ]
    return MessageContext(msgspec.json.encode(facts).decode(), "\n".join(quoted))


def summary(texts: Sequence[str], unseen: int = 0) -> str:
    """Returns the note for the model about dropped messages; `unseen` counts those without text."""
    number = len(texts) + unseen
    lines = [f"{OVERFLOW} Dropped {number} message{'s' * (number != 1)} due to cap."]
    if texts:
        lines += ["Summary:", *(f"- {_line(text)}" for text in texts)]
    return "\n".join(lines)


def messages_in(prompt: str) -> list[str]:
    """Returns the messages of a collected prompt, of a dropped one only its line.

    Empty for a prompt of one message. The inverse of `collected_prompt`.
    """
    if not prompt.startswith((TITLE, OVERFLOW)):
        return []
    head, *messages = _NEXT.split(prompt.removeprefix(TITLE))
    lines = [line[2:] for line in head.splitlines() if line.startswith("- ")]
    return [*lines, *messages]


def _line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LINE_LENGTH else plain[: LINE_LENGTH - 1].rstrip() + "…"
