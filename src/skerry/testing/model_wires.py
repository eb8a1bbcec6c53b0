"""Responses of the stub model server, in the wire format of the request."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from skerry.model.errors import ModelError
from skerry.model.message import ThinkingBlock, ToolCall

_ARGUMENT_PIECE = 7  # characters of a tool call's arguments per event


class Wire(Protocol):
    """One reply in one wire format."""

    def begin(self) -> bytes:
        """Returns the bytes before the first step."""
        ...

    def events(self, step: object, pieces: int) -> list[bytes]:
        """Returns the events of a step, a text or thinking cut into `pieces`; others give none."""
        ...

    def end(self) -> bytes:
        """Returns the finish marker and what belongs to it."""
        ...


def wire_for(path: str) -> Wire:
    """Returns a new reply in the format of a request's path."""
    return AnthropicWire() if path.endswith("/messages") else ChatWire()


class ChatWire:
    """`openai-completions`."""

    def __init__(self) -> None:
        self._calls = 0

    def begin(self) -> bytes:
        """Returns nothing."""
        return b""

    def events(self, step: object, pieces: int) -> list[bytes]:
        """Returns the events of a step."""
        match step:
            case str():
                return [self._event({"content": piece}, None) for piece in cut(step, pieces)]
            case ThinkingBlock():
                thoughts = cut(step.thinking, pieces)
                return [self._event({"reasoning_content": piece}, None) for piece in thoughts]
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
        """Gives the pieces of a call as OpenAI cuts it: id and name first, then arguments."""
        index = self._calls - 1
        first = {"name": call.name, "arguments": ""}
        begun = {"index": index, "id": call.id, "type": "function", "function": first}
        yield {"tool_calls": [begun]}
        for piece in _arguments(call):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


class AnthropicWire:
    """`anthropic-messages`."""

    def __init__(self) -> None:
        self._index = -1
        self._open = ""  # the type of the block that is open
        self._calls = 0

    def begin(self) -> bytes:
        """Returns the message's start, with what the prompt cost."""
        usage = {"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1}
        message = {"id": "msg_stub", "type": "message", "role": "assistant", "usage": usage}
        return self._event("message_start", message={**message, "content": []}) + self._event(
            "ping"
        )

    def events(self, step: object, pieces: int) -> list[bytes]:
        """Returns the events of a step; texts that follow each other are one block."""
        match step:
            case str():
                begun = [] if self._open == "text" else [self._start({"type": "text", "text": ""})]
                deltas = [{"type": "text_delta", "text": piece} for piece in cut(step, pieces)]
                return begun + [self._delta(delta) for delta in deltas]
            case ThinkingBlock(redacted=True):
                hidden = {"type": "redacted_thinking", "data": step.thinking_signature}
                return [self._start(hidden)]
            case ThinkingBlock():
                return list(self._think(step, pieces))
            case ToolCall():
                self._calls += 1
                used = {"type": "tool_use", "id": step.id, "name": step.name, "input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in ("", *_arguments(step))
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

    def _think(self, block: ThinkingBlock, pieces: int) -> Iterator[bytes]:
        yield self._start({"type": "thinking", "thinking": "", "signature": ""})
        for piece in cut(block.thinking, pieces):
            yield self._delta({"type": "thinking_delta", "thinking": piece})
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


def cut(text: str, pieces: int) -> Sequence[str]:
    """Returns the text in so many pieces of about one size."""
    size = max(-(-len(text) // pieces), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _arguments(call: ToolCall) -> Sequence[str]:
    text = msgspec.json.encode(call.arguments).decode()
    return [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]


def _data(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)
