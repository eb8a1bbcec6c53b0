"""Responses of the stub model server, in the wire format of the request."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from skerry.model.errors import ModelError
from skerry.model.message import ThinkingBlock, ToolCall

_ARGUMENT_CHARS = 7  # characters of a tool call's arguments per event


class Wire(Protocol):
    """One reply in one wire format."""

    def begin(self) -> bytes:
        """Returns the bytes before the first step."""
        ...

    def events(self, step: object, count: int) -> list[bytes]:
        """Returns the events of a step; a text or thinking has `count` deltas."""
        ...

    def end(self) -> bytes:
        """Returns the events after the last step: finish reason, usage, end marker."""
        ...


def wire_for(path: str) -> Wire:
    """Returns a new reply in the format of a request's path."""
    return AnthropicWire() if path.endswith("/messages") else ChatWire()


class ChatWire:
    """`openai-completions`."""

    def __init__(self) -> None:
        self._calls = 0

    def begin(self) -> bytes:
        """Returns no bytes: the format has no first event."""
        return b""

    def events(self, step: object, count: int) -> list[bytes]:
        """Returns the events of a step."""
        match step:
            case str():
                return [self._event({"content": part}, None) for part in cut(step, count)]
            case ThinkingBlock():
                thoughts = cut(step.thinking, count)
                return [self._event({"reasoning_content": part}, None) for part in thoughts]
            case ToolCall():
                self._calls += 1
                return [self._event(delta, None) for delta in self._call(step)]
            case ModelError():
                return [_data({"error": {"message": str(step), "code": "server_error"}})]
            case _:
                return []

    def end(self) -> bytes:
        """Returns finish reason, usage and `[DONE]`."""
        usage = {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
        }
        last = {"id": "stub", "object": "chat.completion.chunk", "choices": [], "usage": usage}
        finish = self._event({}, "tool_calls" if self._calls else "stop")
        return finish + _data(last) + b"data: [DONE]\n\n"

    def _event(self, delta: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "stub", "object": "chat.completion.chunk", "model": "stub"}
        return _data({**chunk, "choices": [choice]})

    def _call(self, call: ToolCall) -> Iterator[dict[str, Any]]:
        """Yields the deltas of a call in the order of OpenAI: id and name, then arguments."""
        index = self._calls - 1
        first = {"name": call.name, "arguments": ""}
        begun = {"index": index, "id": call.id, "type": "function", "function": first}
        yield {"tool_calls": [begun]}
        for part in _arguments(call):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


class AnthropicWire:
    """`anthropic-messages`."""

    def __init__(self) -> None:
        self._index = -1
        self._open = ""  # the type of the block that is open
        self._calls = 0

    def begin(self) -> bytes:
        """Returns the start of the message, with the tokens of the prompt."""
        usage = {"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1}
        message = {"id": "msg_stub", "type": "message", "role": "assistant", "usage": usage}
        return self._event("message_start", message={**message, "content": []}) + self._event(
            "ping"
        )

    def events(self, step: object, count: int) -> list[bytes]:
        """Returns the events of a step; consecutive texts are one block."""
        match step:
            case str():
                begun = [] if self._open == "text" else [self._start({"type": "text", "text": ""})]
                deltas = [{"type": "text_delta", "text": part} for part in cut(step, count)]
                return begun + [self._delta(delta) for delta in deltas]
            case ThinkingBlock(redacted=True):
                hidden = {"type": "redacted_thinking", "data": step.thinking_signature}
                return [self._start(hidden)]
            case ThinkingBlock():
                return list(self._think(step, count))
            case ToolCall():
                self._calls += 1
                used = {"type": "tool_use", "id": step.id, "name": step.name, "input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": part}
                    for part in ("", *_arguments(step))
                ]
                return [self._start(used)] + [self._delta(delta) for delta in deltas]
            case ModelError():
                error = {"type": "overloaded_error", "message": str(step)}
                return [self._event("error", error=error)]
            case _:
                return []

    def end(self) -> bytes:
        """Returns the stop reason, the whole usage and `message_stop`."""
        delta = {"stop_reason": "tool_use" if self._calls else "end_turn", "stop_sequence": None}
        return (
            self._stop()
            + self._event("message_delta", delta=delta, usage={"output_tokens": 3})
            + self._event("message_stop")
        )

    def _think(self, block: ThinkingBlock, count: int) -> Iterator[bytes]:
        yield self._start({"type": "thinking", "thinking": "", "signature": ""})
        for part in cut(block.thinking, count):
            yield self._delta({"type": "thinking_delta", "thinking": part})
        signature = block.thinking_signature or "stub-signature"
        yield self._delta({"type": "signature_delta", "signature": signature})

    def _start(self, block: dict[str, Any]) -> bytes:
        stopped = self._stop()
        self._index += 1
        self._open = block["type"]
        return stopped + self._event("content_block_start", index=self._index, content_block=block)

    def _stop(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return self._event("content_block_stop", index=self._index)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._event("content_block_delta", index=self._index, delta=delta)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return b"event: %b\n" % kind.encode() + _data({"type": kind, **fields})


def cut(text: str, count: int) -> Sequence[str]:
    """Returns the text in up to `count` parts of about equal size."""
    size = max(-(-len(text) // count), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _arguments(call: ToolCall) -> Sequence[str]:
    text = msgspec.json.encode(call.arguments).decode()
    return [text[at : at + _ARGUMENT_CHARS] for at in range(0, len(text), _ARGUMENT_CHARS)]


def _data(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)
