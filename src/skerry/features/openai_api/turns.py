"""Earlier messages of a request, and the text that the agent answers (pure)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from skerry.features.openai_api.api_errors import ApiError
from skerry.gateway import attachments
from skerry.gateway.method import MAX_TEXT, RefusedError
from skerry.model.message import (
    CHARS_PER_TOKEN,
    IMAGE_CHARS,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    Usage,
    UserMessage,
)
from skerry.model.origin import Origin

MAX_SYSTEM: Final = 65_536
"""Limit of the system messages together, in characters."""
HISTORY_SHARE: Final = 3
"""Divisor: at most this part of the model's window may be earlier messages."""
CUT: Final = "(Earlier messages of this conversation were left out: they are too long.)"
OPENED: Final = "(The assistant began this conversation.)"


class SpokenTurn(Struct, frozen=True):
    """One message of the person or the assistant."""

    is_assistant: bool
    text: str
    images: tuple[str, ...] = ()
    """Images as data URLs."""

    @property
    def is_empty(self) -> bool:
        """Returns whether it has neither text nor images."""
        return not self.text.strip() and not self.images

    @property
    def chars(self) -> int:
        """Returns its estimated size in characters."""
        return len(self.text) + IMAGE_CHARS * len(self.images)


class ApiPrompt(Struct, frozen=True):
    """The message to answer, and the messages before it."""

    text: str
    images: tuple[ImageBlock, ...]
    history: tuple[SpokenTurn, ...]
    """Alternating turns, the first of the person, the last of the assistant."""


def prompt(turns: Sequence[SpokenTurn]) -> ApiPrompt:
    """Returns the last messages of the person as one, and the messages before them.

    Raises:
        ApiError: 400, the last message is not of the person, is empty, or has invalid images.
    """
    merged = _merged([turn for turn in turns if not turn.is_empty])
    if not merged or merged[-1].is_assistant or (turns and turns[-1].is_assistant):
        message = "The last message must be of the role user, with a text or an image."
        raise ApiError(400, message, param="messages", code="invalid_value")
    last = merged[-1]
    if len(last.text) > MAX_TEXT:
        message = f"The last message has more than {MAX_TEXT} characters."
        raise ApiError(400, message, param="messages", code="string_above_max_length")
    blocks(merged)  # checks the images of earlier messages too
    return ApiPrompt(last.text, blocks([last])[0], tuple(merged[:-1]))


def blocks(turns: Sequence[SpokenTurn]) -> list[tuple[ImageBlock, ...]]:
    """Returns the images of each turn, checked together.

    Raises:
        ApiError: 400, there are too many images, or one is invalid.
    """
    urls = [url for turn in turns for url in turn.images]
    if len(urls) > attachments.MAX_COUNT:
        message = f"The request has {len(urls)} images; the limit is {attachments.MAX_COUNT}."
        raise ApiError(400, message, param="messages", code="too_many_images")
    try:
        images = list(attachments.images([{"content": url} for url in urls]))
    except RefusedError as error:
        raise ApiError(400, str(error), param="messages", code="invalid_image") from None
    found: list[tuple[ImageBlock, ...]] = []
    for turn in turns:
        count = len(turn.images)
        found.append(tuple(images[:count]))
        images = images[count:]
    return found


def _merged(turns: Sequence[SpokenTurn]) -> list[SpokenTurn]:
    """Joins neighbours of the same role: models expect alternating roles."""
    merged: list[SpokenTurn] = []
    for turn in turns:
        if merged and merged[-1].is_assistant is turn.is_assistant:
            last = merged.pop()
            text = "\n\n".join(part for part in (last.text, turn.text) if part.strip())
            turn = SpokenTurn(turn.is_assistant, text, (*last.images, *turn.images))  # noqa: PLW2901 - the joined one
        merged.append(turn)
    return merged


def fitting(history: Sequence[SpokenTurn], window_tokens: int) -> list[SpokenTurn]:
    """Returns the last earlier messages that fit into a part of the window; begins with the person.

    A first message of the assistant gets a line of the person before it.
    """
    room = window_tokens * CHARS_PER_TOKEN // HISTORY_SHARE
    kept: list[SpokenTurn] = []
    for turn in reversed(history):
        room -= turn.chars
        if room < 0:
            break
        kept.insert(0, turn)
    note = CUT if len(kept) < len(history) else OPENED
    if not kept:
        return []
    if kept[0].is_assistant:
        return [SpokenTurn(is_assistant=False, text=note), *kept]
    if note is CUT:
        first = kept[0]
        kept[0] = SpokenTurn(is_assistant=False, text=f"{CUT}\n\n{first.text}", images=first.images)
    return kept


def entries(history: Sequence[SpokenTurn], now: int) -> list[Message]:
    """Returns earlier messages as entries of a transcript.

    The client claims that the assistant wrote its messages, so that they count as text of others.
    """
    found: list[Message] = []
    for turn, images in zip(history, blocks(history), strict=True):
        text = (TextBlock(turn.text),) if turn.text or not images else ()
        if turn.is_assistant:
            found.append(_claimed(turn.text, now))
        else:
            found.append(UserMessage((*text, *images), now, Origin.OWNER))
    return found


def _claimed(text: str, now: int) -> AssistantMessage:
    content, origin = (TextBlock(text),), Origin.PLUGIN
    return AssistantMessage(content, "", "skerry", "client", Usage(), "stop", now, None, origin)
