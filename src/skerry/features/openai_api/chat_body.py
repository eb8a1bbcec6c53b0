"""Body of `POST /v1/chat/completions` (pure)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from skerry.features.openai_api.api_errors import ApiError, invalid
from skerry.features.openai_api.turns import SpokenTurn
from skerry.gateway.method import MAX_TEXT
from skerry.model.thinking import ThinkingLevel, thinking_level

MAX_MESSAGES: Final = 2_000
MAX_PARTS: Final = 200
_NO_TOOLS: Final = "agents call the tools of the gateway, and none of the client"
_NO_FORM: Final = "the form of an agent's answer cannot be prescribed"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("tools", "functions", "tool_choice", "function_call"), _NO_TOOLS),
        **dict.fromkeys(("response_format", "modalities", "audio"), _NO_FORM),
        "n": "an agent gives one answer",
        "stop": "an agent's answer does not end at a text",
        **dict.fromkeys(("logprobs", "top_logprobs", "logit_bias"), "tokens are not accessible"),
        "web_search_options": "the tools of the gateway search the web",
    }
)
"""Parameters that would change the outcome and are not supported, each with the reason."""
USUAL: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "tool_choice": ("none", "auto"),
        "function_call": ("none", "auto"),
        "response_format": ({"type": "text"},),
        "modalities": (["text"],),
        "n": (1,),
    }
)
"""Values of these parameters that request the default behaviour."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)


class ImageUrl(_Body):
    """Address of an image."""

    url: str


class Part(_Body):
    """One part of a message's content."""

    type: str = Field(max_length=64)
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None


class BodyMessage(_Body):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[Part], Field(max_length=MAX_PARTS)] | None = None


class StreamOptions(_Body):
    """Options of a stream."""

    include_usage: bool | None = None


def _level(value: object) -> object:
    return thinking_level(value) if isinstance(value, str) else value


Level = Annotated[ThinkingLevel, BeforeValidator(_level)]
"""A thinking level by its name, which may be a name of OpenAI."""


class ChatBody(_Body):
    """A request for an answer of an agent."""

    model: str = Field(default="skerry", min_length=1, max_length=256)
    messages: list[BodyMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, max_length=512)
    reasoning_effort: Level | None = None


def parsed(value: dict[str, Any]) -> ChatBody:
    """Returns the body.

    Raises:
        ApiError: 400, a field is invalid or not supported.
    """
    refuse_unsupported(value, REFUSED, USUAL)
    try:
        return ChatBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None


def refuse_unsupported(
    value: Mapping[str, Any], refused: Mapping[str, str], usual: Mapping[str, tuple[Any, ...]]
) -> None:
    """Refuses a parameter that would change the outcome and is not supported.

    Raises:
        ApiError: 400 with the name of the parameter and the reason.
    """
    for name, reason in refused.items():
        requested = value.get(name)
        if requested and requested not in usual.get(name, ()):
            message = f"The parameter {name} is not supported: {reason}."
            raise ApiError(400, message, param=name, code="unsupported_parameter")


def system_and_turns(messages: list[BodyMessage]) -> tuple[str, list[SpokenTurn]]:
    """Returns the text of the system messages, and the messages of the person and the assistant.

    Raises:
        ApiError: 400, a message or a part is not supported.
    """
    system: list[str] = []
    turns: list[SpokenTurn] = []
    for number, message in enumerate(messages):
        param = f"messages.{number}"
        if message.role in {"tool", "function"}:
            text = f"Messages of the role {message.role} are not supported: {_NO_TOOLS}."
            raise ApiError(400, text, param=f"{param}.role", code="unsupported_role")
        texts, images = _content(message, param)
        if message.role in {"system", "developer"}:
            system.append(texts)
        else:
            turns.append(SpokenTurn(message.role == "assistant", texts, tuple(images)))
    return "\n\n".join(text for text in system if text.strip()), turns


def _content(message: BodyMessage, param: str) -> tuple[str, list[str]]:
    if message.content is None or isinstance(message.content, str):
        return short(message.content or "", param), []
    texts: list[str] = []
    images: list[str] = []
    for number, part in enumerate(message.content):
        if part.type == "text" and part.text is not None:
            texts.append(part.text)
        elif part.type == "refusal" and part.refusal is not None:
            texts.append(part.refusal)
        elif part.type == "image_url" and part.image_url and message.role == "user":
            images.append(data_url(part.image_url.url, f"{param}.content.{number}.image_url"))
        else:
            text = f"A part of the type {part.type!r} is not supported in this message."
            raise ApiError(400, text, param=f"{param}.content.{number}", code="unsupported_part")
    return short("\n".join(texts), param), images


def short(text: str, param: str) -> str:
    """Returns the text of a message. Raises ApiError 400 if it is too long."""
    if len(text) > MAX_TEXT:
        message = f"The message has {len(text)} characters; the limit is {MAX_TEXT}."
        raise ApiError(400, message, param=param, code="string_above_max_length")
    return text


def data_url(url: str, param: str) -> str:
    """Returns the address of an image if it contains the image.

    Raises:
        ApiError: 400 for another address, which the gateway does not fetch.
    """
    if not url.startswith("data:"):
        message = "Send the image itself as a data URL; the gateway fetches no addresses."
        raise ApiError(400, message, param=param, code="unsupported_image_url")
    return url
