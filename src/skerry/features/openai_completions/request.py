"""A model call as the body of an `openai-completions` request (pure)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from skerry.sdk.model_api import NO_IMAGE, JoinedItems, is_own
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

API = "openai-completions"

_FROM_TOOLS: Final = "Images from the tool results above:"
_REASONING_FIELDS: Final = frozenset({"reasoning_content", "reasoning"})
"""Fields of thinking in responses and requests; the signature of a thinking block names its
field."""

_encode = msgspec.json.Encoder().encode


def request_body(request: ModelRequest, output_limit: str | None, effort: str = "") -> bytes:
    """Returns the JSON of a streaming request: system prompt first, then the conversation.

    Messages are encoded once. `output_limit` is the field of the model's `max_tokens`;
    None leaves the length to the provider.
    """
    model = request.model
    form = request.history.form(f"{API} {model.ref}", lambda: ChatForm(model))
    messages = form.since(request.first)
    if request.system:
        messages.insert(0, _encode({"role": "system", "content": request.system}))
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools and model.supports_tools:
        options["tools"] = [_tool(tool) for tool in request.tools]
    if output_limit is not None:
        options[output_limit] = model.max_tokens
    if effort:
        options["reasoning_effort"] = effort
    head = b'{"model":%b,"messages":[' % _encode(model.id)
    return b"".join((head, b",".join(messages), b"],", _encode(options)[1:]))


class ChatForm:
    """A conversation in the form of the API, for one model; each message is encoded once.

    A tool's result can only be text there: its images follow in a user message after all results of
    the response, because no message may separate the results.
    """

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._sent = JoinedItems()
        self._ends: list[int] = []  # offset of each message in `_sent`
        self._images: list[ImageBlock] = []  # of the last results, until other messages follow
        self._before: list[tuple[ImageBlock, ...]] = []  # the images before each message

    def add(self, message: Message) -> None:
        """Adds the next message."""
        is_result = isinstance(message, ToolResultMessage)
        if self._images and not is_result:
            self._sent.add(self._from_tools())
            self._images = []
        self._ends.append(self._sent.end)
        self._before.append(tuple(self._images))
        if is_result and "image" in self._model.input:
            self._images += [block for block in message.content if isinstance(block, ImageBlock)]
        encoded = self._encode(message)
        if encoded:
            self._sent.add(encoded)

    def keep(self, count: int) -> None:
        """Removes all messages after the first `count`."""
        if count >= len(self._ends):
            return
        self._images = list(self._before[count])
        self._sent.cut(self._ends[count])
        del self._ends[count:], self._before[count:]

    def since(self, first: int) -> list[bytes]:
        """Returns the request from message `first` on, to be joined by commas."""
        start = self._ends[first] if first < len(self._ends) else self._sent.end
        sent = [self._sent.since(start)] if start < self._sent.end else []
        return [*sent, self._from_tools()] if self._images else sent

    def _from_tools(self) -> bytes:
        content = self._parts((TextBlock(_FROM_TOOLS), *self._images))
        return _encode({"role": "user", "content": content})

    def _encode(self, message: Message) -> bytes:
        """Returns one message; empty for an empty message, which is omitted.

        A response that failed or was aborted keeps its text so far; without text it is omitted,
        because providers refuse an empty assistant message.
        """
        match message:
            case UserMessage(content=content):
                return _encode({"role": "user", "content": self._content(content)})
            case ToolResultMessage():
                text = message.text
                if "image" not in self._model.input:
                    text = _joined(self._parts(message.content))
                result = {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
                return _encode(result)
            case AssistantMessage():
                return self._assistant(message)

    def _content(self, content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
        parts = self._parts(content)
        if any(part["type"] != "text" for part in parts):
            return parts
        return _joined(parts)

    def _parts(self, content: Sequence[Content]) -> list[dict[str, Any]]:
        return [self._part(block) for block in content]

    def _part(self, block: Content) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if "image" not in self._model.input:
            return {"type": "text", "text": NO_IMAGE}
        url = f"data:{block.mime_type};base64,{block.data}"
        return {"type": "image_url", "image_url": {"url": url}}

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [_call(call) for call in message.tool_calls]
        text = message.text
        if not text and not calls and message.stop_reason in {"error", "aborted"}:
            return b""
        fields: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            fields |= {"content": text or None, "tool_calls": calls}
        if is_own(message, API, self._model):
            for block in message.content:
                if isinstance(block, ThinkingBlock):
                    fields |= _thinking(block)
        return _encode(fields)


def _thinking(block: ThinkingBlock) -> dict[str, Any]:
    """Returns thinking in its original field; thinking without a field is not sent."""
    signature = block.thinking_signature or ""
    if signature.startswith("["):
        return {"reasoning_details": msgspec.Raw(signature.encode())}
    return {signature: block.thinking} if signature in _REASONING_FIELDS else {}


def _joined(parts: Sequence[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts)


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
