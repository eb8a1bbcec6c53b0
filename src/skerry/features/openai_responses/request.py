"""A model call as the body of an `openai-responses` request (pure)."""

from functools import partial
from typing import Any, Final

import msgspec

from skerry.sdk.model_api import NO_IMAGE, Items, is_own
from skerry.sdk.models import (
    AssistantMessage,
    Content,
    ImageBlock,
    Message,
    ModelInfo,
    ModelRequest,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

API: Final = "openai-responses"

_encode = msgspec.json.Encoder().encode
_MAX_CACHE_KEY = 64  # characters of `prompt_cache_key`


def request_body(request: ModelRequest, effort: str = "", *, limits: bool = False) -> bytes:
    """Returns the JSON of a streaming request; messages are encoded once.

    The provider stores nothing, so encrypted reasoning is received and sent back unchanged.
    `limits` is true to send the model's `max_tokens`; otherwise the provider decides.
    """
    model = request.model
    form = request.history.form(f"{API} {model.ref}", lambda: Items(partial(encode_message, model)))
    options: dict[str, Any] = {"stream": True, "store": False}
    if request.system:
        options["instructions"] = request.system
    if request.tools and model.supports_tools:
        options["tools"] = [_tool(tool) for tool in request.tools]
    if model.reasoning:
        options["include"] = ["reasoning.encrypted_content"]
    if effort:
        options["reasoning"] = {"effort": effort, "summary": "auto"}
    if request.session_id:
        options["prompt_cache_key"] = request.session_id[:_MAX_CACHE_KEY]
    if limits:
        options["max_output_tokens"] = model.max_tokens
    head = b'{"model":%b,"input":[' % _encode(model.id)
    return b"".join((head, form.since(request.first), b"],", _encode(options)[1:]))


def encode_message(model: ModelInfo, message: Message) -> bytes:
    """Returns the items of one message for `model`, joined by commas; empty for an empty message.

    Reasoning is only sent to the model that wrote it, because no other can decrypt it.
    """
    match message:
        case UserMessage():
            return _encode({"role": "user", "content": _content(model, message.content)})
        case ToolResultMessage():
            return _encode(_result(model, message))
        case AssistantMessage():
            is_own_message = is_own(message, API, model)
            broken = message.stop_reason in {"error", "aborted"}
            return b",".join(_assistant(message, keep_reasoning=is_own_message and not broken))


def _assistant(message: AssistantMessage, *, keep_reasoning: bool) -> list[bytes]:
    items: list[bytes] = []
    reasoning = b""  # delayed: the API refuses it without the following item
    for block in message.content:
        if isinstance(block, ThinkingBlock):
            reasoning = (block.thinking_signature or "").encode() if keep_reasoning else b""
            continue
        if reasoning:
            items.append(reasoning)
            reasoning = b""
        items.append(_encode(_item(block, keep_phase=keep_reasoning)))
    return items


def _item(block: TextBlock | ToolCall, *, keep_phase: bool) -> dict[str, Any]:
    match block:
        case TextBlock():
            phase = {"phase": block.text_signature} if keep_phase and block.text_signature else {}
            return {"role": "assistant", "content": block.text, **phase}
        case ToolCall():
            return {
                "type": "function_call",
                "call_id": block.id,
                "name": block.name,
                "arguments": _encode(block.arguments).decode(),
            }


def _result(model: ModelInfo, message: ToolResultMessage) -> dict[str, Any]:
    plain = all(isinstance(block, TextBlock) for block in message.content)
    return {
        "type": "function_call_output",
        "call_id": message.tool_call_id,
        "output": message.text if plain else _content(model, message.content),
    }


def _content(model: ModelInfo, content: tuple[Content, ...]) -> list[dict[str, Any]]:
    return [_part(block, images="image" in model.input) for block in content]


def _part(block: Content, *, images: bool) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"type": "input_text", "text": block.text}
        case ImageBlock() if images:
            url = f"data:{block.mime_type};base64,{block.data}"
            return {"type": "input_image", "detail": "auto", "image_url": url}
        case ImageBlock():
            return {"type": "input_text", "text": NO_IMAGE}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,  # otherwise every parameter must be required
    }
