"""Body of `POST /v1/responses` (pure)."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skerry.features.openai_api.api_errors import ApiError, invalid
from skerry.features.openai_api.chat_body import (
    MAX_MESSAGES,
    MAX_PARTS,
    Level,
    data_url,
    refuse_unsupported,
    short,
)
from skerry.features.openai_api.turns import SpokenTurn
from skerry.model.ids import RunId

_NO_TOOLS: Final = "agents call the tools of the gateway, and none of the client"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("tools", "tool_choice"), _NO_TOOLS),
        "background": "the answer belongs to its request; repeat it with an Idempotency-Key",
        "conversation": "name a conversation by `user` or by the header x-skerry-session-key",
        "prompt": "the gateway has no stored prompts",
        "top_logprobs": "tokens are not accessible",
    }
)
"""Parameters that would change the outcome and are not supported, each with the reason."""
USUAL: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType({"tool_choice": ("none", "auto")})
"""Values of these parameters that request the default behaviour."""
RESPONSE_ID: Final = re.compile(r"resp_(openai-[0-9a-f]{32,40})")
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)


class InputPart(_Body):
    """One part of an item's content."""

    type: str = Field(max_length=64)
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class InputItem(_Body):
    """One item of the input; without a type it is a message."""

    type: str = Field(default="message", max_length=64)
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | Annotated[list[InputPart], Field(max_length=MAX_PARTS)] | None = None


class Reasoning(_Body):
    """Settings of the reasoning."""

    effort: Level | None = None


class TextFormat(_Body):
    """Form of the answer's text."""

    type: str = Field(default="text", max_length=64)


class TextSettings(_Body):
    """Settings of the answer's text."""

    format: TextFormat | None = None


class ResponsesBody(_Body):
    """A request for an answer of an agent."""

    model: str = Field(default="skerry", min_length=1, max_length=256)
    input: str | Annotated[list[InputItem], Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: str | None = None
    previous_response_id: str | None = Field(default=None, max_length=128)
    stream: bool | None = None
    user: str | None = Field(default=None, max_length=512)
    reasoning: Reasoning | None = None
    text: TextSettings | None = None

    @property
    def previous_run(self) -> RunId | None:
        """Returns the run of the previous response; None without one.

        Raises:
            ApiError: 404, the id is none of this gateway.
        """
        if self.previous_response_id is None:
            return None
        match = RESPONSE_ID.fullmatch(self.previous_response_id)
        if match is None:
            raise unknown_response()
        return RunId(match[1])


def unknown_response() -> ApiError:
    """Returns the refusal of a previous response that the gateway does not have."""
    message = "The gateway has no such response, or has removed its conversation."
    return ApiError(404, message, param="previous_response_id", code="previous_response_not_found")


def parsed(value: dict[str, Any]) -> ResponsesBody:
    """Returns the body.

    Raises:
        ApiError: 400, a field is invalid or not supported.
    """
    refuse_unsupported(value, REFUSED, USUAL)
    try:
        body = ResponsesBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
    if body.text and body.text.format and body.text.format.type != "text":
        message = "The parameter text.format is not supported: an agent answers with text."
        raise ApiError(400, message, param="text.format", code="unsupported_parameter")
    return body


def system_and_turns(body: ResponsesBody) -> tuple[str, list[SpokenTurn]]:
    """Returns the text of the instructions, and the messages of the person and the assistant.

    Raises:
        ApiError: 400, an item or a part is not supported.
    """
    system = [body.instructions or ""]
    turns: list[SpokenTurn] = []
    if isinstance(body.input, str):
        return system[0], [SpokenTurn(is_assistant=False, text=short(body.input, "input"))]
    for number, item in enumerate(body.input):
        param = f"input.{number}"
        if item.type == "reasoning":
            continue
        if item.type != "message" or item.role is None:
            text = f"Items of the type {item.type!r} are not supported: {_NO_TOOLS}."
            raise ApiError(400, text, param=param, code="unsupported_item")
        text, images = _content(item, param)
        if item.role in {"system", "developer"}:
            system.append(text)
        else:
            turns.append(SpokenTurn(item.role == "assistant", text, tuple(images)))
    return "\n\n".join(text for text in system if text.strip()), turns


def _content(item: InputItem, param: str) -> tuple[str, list[str]]:
    if item.content is None or isinstance(item.content, str):
        return short(item.content or "", param), []
    texts: list[str] = []
    images: list[str] = []
    for number, part in enumerate(item.content):
        at = f"{param}.content.{number}"
        if part.type in _TEXTS and part.text is not None:
            texts.append(part.text)
        elif part.type == "refusal" and part.refusal is not None:
            texts.append(part.refusal)
        elif part.type == "input_image" and part.image_url and item.role == "user":
            images.append(data_url(part.image_url, f"{at}.image_url"))
        else:
            text = f"A part of the type {part.type!r} is not supported in this message."
            raise ApiError(400, text, param=at, code="unsupported_part")
    return short("\n".join(texts), param), images
