"""A model call as the body of a `google-generative-ai` request (pure)."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, assert_never

import msgspec

from skerry.features.google_generative_ai.gemini_schema import gemini_schema
from skerry.sdk.model_api import NO_IMAGE, OWN_ID, Turns, is_own, levels
from skerry.sdk.models import (
    AssistantMessage,
    Block,
    Content,
    ImageBlock,
    Message,
    ModelInfo,
    ModelRequest,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

API: Final = "google-generative-ai"

_UNSIGNED: Final = "skip_thought_signature_validator"
"""Placeholder of the signature of a call that another model made; Gemini 3 refuses one without.
Source: Gemini API, "Thought signatures", FAQ."""
_BUDGETS: Final = {
    ThinkingLevel.MINIMAL: 1024,
    ThinkingLevel.LOW: 2048,
    ThinkingLevel.MEDIUM: 8192,
    ThinkingLevel.HIGH: 24_576,
    ThinkingLevel.XHIGH: 24_576,
}
"""Tokens of thinking for Gemini 2.5, which has no levels; 24,576 is the maximum of its Flash."""
_CAN_STOP: Final = "gemini-2.5-flash"
"""Models that think unless the budget is 0. Gemini 2.5 Pro and Gemini 3 refuse to stop thinking.
Source: Gemini API, "Thinking", table of budgets."""
Thinking = dict[str, Any]
"""The value of `thinkingConfig`; empty omits it."""

_encode = msgspec.json.Encoder().encode


def thinking_forms(request: ModelRequest) -> Sequence[Thinking]:
    """Returns the forms that request thinking, best first: models support different levels."""
    if not request.model.reasoning:
        return ({},)
    if request.thinking is ThinkingLevel.OFF:
        return ({"thinkingBudget": 0}, {}) if _CAN_STOP in request.model.id else ({},)
    if _is_second(request.model):
        forms: list[Thinking] = [{"thinkingBudget": _BUDGETS[request.thinking]}]
    else:
        forms = [{"thinkingLevel": level.value.upper()} for level in levels(request.thinking)]
    return [*({"includeThoughts": True, **form} for form in forms), {}]


def request_body(
    request: ModelRequest, thinking: Thinking | None = None, *, limits: bool = False
) -> bytes:
    """Returns the JSON of a streaming request; the model's name is part of the address.

    `limits` is true to send the model's `max_tokens`; otherwise the provider decides.
    """
    model = request.model
    turns = request.history.form(
        f"{API} {model.ref}", lambda: Turns(partial(encode_message, model), _close)
    )
    options: dict[str, Any] = {}
    if request.system:
        options["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools and model.supports_tools:
        options["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    generation: dict[str, Any] = {"maxOutputTokens": model.max_tokens} if limits else {}
    if thinking:
        generation["thinkingConfig"] = thinking
    if generation:
        options["generationConfig"] = generation
    contents = b",".join(turns.since(request.first))
    return b'{"contents":[%b]%b' % (contents, b",%b" % _encode(options)[1:] if options else b"}")


def _is_second(model: ModelInfo) -> bool:
    """Returns true for Gemini 2, which has budgets instead of levels and checks no signature."""
    return "gemini-2" in model.id


def encode_message(model: ModelInfo, message: Message) -> bytes:
    """Returns the parts of one message for `model`, joined by commas; empty for an empty message.

    Thoughts and signatures are only sent to the model that wrote them.
    """
    return b",".join(_encode(part) for part in _parts(model, message))


def _parts(model: ModelInfo, message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [_part(model, block) for block in message.content]
        case ToolResultMessage():
            return _result(model, message)
        case AssistantMessage():
            if is_own(message, API, model):
                return [_own_part(block) for block in message.content]
            return _foreign(model, message)


def _close(assistant: bool, parts: bytes) -> bytes:  # noqa: FBT001 - the signature that `Turns` requires
    return b'{"role":"%b","parts":[%b]}' % (b"model" if assistant else b"user", parts)


def _own_part(block: Block) -> dict[str, Any]:
    """Returns a part of the model's own message, as received."""
    match block:
        case ThinkingBlock():
            signature = block.thinking_signature
            part: dict[str, Any] = {"text": block.thinking, "thought": True}
        case TextBlock():
            signature = block.text_signature
            part = {"text": block.text}
        case ToolCall():
            signature = block.thought_signature
            part = _call(block)
        case _:
            assert_never(block)
    return part | ({"thoughtSignature": signature} if signature else {})


def _foreign(model: ModelInfo, message: AssistantMessage) -> list[dict[str, Any]]:
    """Returns another model's message: its text and calls, of which the first must be signed."""
    parts: list[dict[str, Any]] = []
    signature = {} if _is_second(model) else {"thoughtSignature": _UNSIGNED}
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append({"text": block.text})
        elif isinstance(block, ToolCall):
            parts.append(_call(block) | signature)
            signature = {}
    return parts


def _call(call: ToolCall) -> dict[str, Any]:
    return {"functionCall": _identified(call.id, call.name, args=call.arguments)}


def _result(model: ModelInfo, message: ToolResultMessage) -> list[dict[str, Any]]:
    key = "error" if message.is_error else "output"
    response = _identified(
        message.tool_call_id, message.tool_name, response={key: message.text or "(no text)"}
    )
    images = [block for block in message.content if isinstance(block, ImageBlock)]
    return [{"functionResponse": response}, *(_part(model, image) for image in images)]


def _identified(call_id: str, name: str, **rest: Any) -> dict[str, Any]:
    """Returns a call or its response; a generated id is omitted, because the order pairs them."""
    if call_id.startswith(OWN_ID):
        return {"name": name, **rest}
    return {"id": call_id, "name": name, **rest}


def _part(model: ModelInfo, block: Content) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"text": block.text}
        case ImageBlock() if "image" in model.input:
            return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}
        case ImageBlock():
            return {"text": NO_IMAGE}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    parameters = gemini_schema(tool.parameters)
    if parameters.get("properties"):  # Gemini refuses an object without properties
        declared["parameters"] = parameters
    return declared
