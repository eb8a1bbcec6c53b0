"""A model call as the body of an `openai-completions` request (pure)."""

from typing import Any

import msgspec

from skerry.model.message import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from skerry.model.tool import ToolSpec
from skerry.ports.model import ModelRequest

API = "openai-completions"

_encode = msgspec.json.Encoder().encode


def request_body(request: ModelRequest, output_limit: str | None) -> bytes:
    """Return the JSON of a streaming request: system prompt first, then the conversation.

    Messages are encoded once and joined. `output_limit` is the field that takes the model's
    `max_tokens`; None leaves the length to the provider.
    """
    model = request.model
    wire = request.history.wire(API, encode_message)
    messages = list(filter(None, wire[request.first :]))
    if request.system:
        messages.insert(0, _encode({"role": "system", "content": request.system}))
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools and model.supports_tools:
        options["tools"] = [_tool(tool) for tool in request.tools]
    if output_limit is not None:
        options[output_limit] = model.max_tokens
    return b'{"model":%b,"messages":[%b],%b' % (
        _encode(model.id),
        b",".join(messages),
        _encode(options)[1:],
    )


def encode_message(message: Message) -> bytes:
    """Return one message in the API's form; empty for one that says nothing and must be left out.

    A response that failed or was aborted keeps the text it had; without any it is left out, because
    providers refuse an assistant message that is empty.
    """
    match message:
        case UserMessage():
            return _encode({"role": "user", "content": message.text})
        case ToolResultMessage():
            return _encode(
                {
                    "role": "tool",
                    "tool_call_id": message.tool_call_id,
                    "content": message.text,
                }
            )
        case AssistantMessage():
            return _assistant(message)


def _assistant(message: AssistantMessage) -> bytes:
    calls = [_call(call) for call in message.tool_calls]
    text = message.text
    if not text and not calls and message.stop_reason in {"error", "aborted"}:
        return b""
    if not calls:
        return _encode({"role": "assistant", "content": text})
    return _encode({"role": "assistant", "content": text or None, "tool_calls": calls})


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = _encode(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
