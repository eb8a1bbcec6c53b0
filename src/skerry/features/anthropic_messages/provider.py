"""Adapter for APIs with the format `anthropic-messages`: Claude, llama.cpp's server, others."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from skerry.features.anthropic_messages.request import API, Options, request_body, thinking_options
from skerry.sdk.model_api import (
    URL,
    AnswerLimit,
    Downgrades,
    Endpoint,
    EventText,
    HttpClient,
    StreamingCall,
    count,
    decoded,
    parse_arguments,
    stream_failure,
)
from skerry.sdk.models import (
    AssistantMessage,
    Block,
    ModelInfo,
    ModelOverflowError,
    ModelReply,
    ModelRequest,
    ModelRequestError,
    ModelStreamCutError,
    ReplyListener,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)

_VERSION: Final = "2023-06-01"
_MAX_PAUSES: Final = 7
"""Maximum number of pauses of one answer; then the text so far is returned as cut off."""


def headers(endpoint: Endpoint) -> dict[str, str]:
    """Returns the headers of every request: the version of the API, and the key."""
    key = {"x-api-key": endpoint.api_key} if endpoint.api_key else {}
    return {"anthropic-version": _VERSION, **key}


def models_url(base_url: str) -> str:
    """Returns the address of the list of models."""
    return f"{_versioned(base_url)}/models?limit=1000"


def _versioned(base_url: str) -> str:
    """Returns the address with the version of the API, which may be missing."""
    return base_url.rstrip("/").removesuffix("/v1") + "/v1"


class AnthropicProvider:
    """One endpoint; its base URL may end in `/v1`. `providers.retry` repeats failed calls."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = URL(f"{_versioned(endpoint.base_url)}/messages")
        self._exchange = StreamingCall(http, endpoint, headers(endpoint))
        self._downgrades = Downgrades[Options]()

    @property
    def api(self) -> str:
        """Returns `anthropic-messages`."""
        return API

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""

        async def ask(options: Options, listener: ReplyListener) -> ModelReply:
            history, content, usage = request.history, list[Block](), Usage()
            sent_count = len(history.messages)
            try:
                while True:
                    builder = AnthropicBuilder(self._endpoint.name)
                    body = request_body(request, options)
                    reply = await self._exchange.ask(request, self._url, body, builder, listener)
                    content += reply.content
                    usage += reply.usage
                    goes_on = builder.paused and reply.content and not reply.tool_calls
                    if not goes_on or len(history.messages) - sent_count == _MAX_PAUSES:
                        return ModelReply(tuple(content), reply.stop_reason, usage)
                    history.append(_as_message(request.model, reply))
            except BaseException:
                if content:  # the content before the pause
                    listener.on_spent(usage)
                raise
            finally:
                history.cut(sent_count)

        return await self._downgrades.ask(request, listener, thinking_options(request), ask)


def _as_message(model: ModelInfo, reply: ModelReply) -> AssistantMessage:
    """Returns the answer so far as a message of the conversation."""
    provider, reason = model.provider, reply.stop_reason
    return AssistantMessage(reply.content, API, provider, model.id, reply.usage, reason, 0)


_PAUSED: Final = "pause_turn"
_CUT_OFF: Final = frozenset({"max_tokens", "model_context_window_exceeded", _PAUSED})


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Details(msgspec.Struct):
    explanation: str | None = None


class _Delta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: _Details | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class _Slot:
    """One content block while its deltas arrive."""

    block: _Block
    parts: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


class AnthropicBuilder:
    """Builds a reply from events: `take` returns the added text, `reply` the whole reply.

    `provider` is the provider's name in errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._usage = _Usage()
        self._stop_reason = ""
        self._explanation = ""
        self._stopped = False
        self._limit = AnswerLimit(provider)

    @property
    def finished(self) -> bool:
        """Returns true after `message_stop`; before it the answer is incomplete."""
        return self._stopped

    @property
    def usage(self) -> Usage:
        """Returns the usage counted so far."""
        return _usage(self._usage)

    @property
    def done(self) -> bool:
        """Returns true when no relevant event can follow."""
        return self._stopped

    @property
    def paused(self) -> bool:
        """Returns true when the model paused and must be called again with its answer so far."""
        return self._stop_reason == _PAUSED

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added.

        Raises:
            ModelStreamCutError: the event is not readable.
            ModelError: the event contains an error of the provider.
            ModelRequestError: the answer is longer than the limit.
        """
        event = decoded(_decoder, data, self._provider)
        match event.type:
            case "content_block_delta" if event.delta is not None:
                return self._add(event.index, event.delta)
            case "content_block_start" if event.content_block is not None:
                return self._open(event.index, event.content_block)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                self._end(event.delta or _Delta())
            case "message_stop":
                self._stopped = True
            case "error":
                raise stream_failure(bytes(event.error), self._provider)
            case _:
                pass  # ping, content_block_stop, and events of later versions
        return None

    def _open(self, index: int, block: _Block) -> EventText | None:
        slot = self._by_index[index] = _Slot(block)
        self._slots.append(slot)  # an earlier slot with this index is complete and is kept
        self._limit.grow(len(block.data or ""))
        begun = _Delta(text=block.text, thinking=block.thinking, signature=block.signature)
        return self._add(index, begun)

    def _add(self, index: int, delta: _Delta) -> EventText | None:
        slot = self._by_index.get(index)
        if slot is None:
            raise ModelStreamCutError(f"{self._provider} sent a delta without its content block.")
        text, thinking = delta.text or "", delta.thinking or ""
        if delta.signature:
            self._limit.grow(len(delta.signature))
            slot.signature.append(delta.signature)
        if delta.partial_json:
            self._limit.grow(len(delta.partial_json))
            slot.arguments.append(delta.partial_json)
        if not text and not thinking:
            return None
        self._limit.grow(len(text) + len(thinking))
        slot.parts.append(text or thinking)
        return EventText(text, thinking)

    def _count(self, usage: _Usage | None) -> None:
        """Stores the counts of an event; later counts replace earlier ones."""
        for name in _Usage.__struct_fields__:
            value = getattr(usage, name, None)
            if value is not None:
                setattr(self._usage, name, value)

    def _end(self, delta: _Delta) -> None:
        self._stop_reason = delta.stop_reason or self._stop_reason
        if delta.stop_details is not None:
            self._explanation = delta.stop_details.explanation or ""

    def reply(self) -> ModelReply:
        """Returns the whole reply.

        Raises:
            ModelStreamCutError: `message_stop` is missing.
            ModelRequestError: the model refused to answer; the text before it was returned already,
            and a
                reply would count as the whole answer.
            ModelOverflowError: the context window was full before any text.
        """
        if not self._stopped:
            raise ModelStreamCutError(f"{self._provider} ended its answer without a finish marker.")
        if self._stop_reason == "refusal":
            reason = f": {self._explanation}" if self._explanation else "."
            raise ModelRequestError(
                f"{self._provider} refused to answer{reason} Rephrase it, or start a new session."
            )
        content = tuple(block for slot in self._slots if (block := _block(slot)) is not None)
        if self._stop_reason == "model_context_window_exceeded" and not content:
            raise ModelOverflowError(f"The conversation is too long for {self._provider}.")
        if self._stop_reason in _CUT_OFF:
            stop_reason = "length"
        else:
            called = any(isinstance(block, ToolCall) for block in content)
            stop_reason = "toolUse" if called else "stop"
        return ModelReply(content, stop_reason, _usage(self._usage))


def _block(slot: _Slot) -> Block | None:
    """Returns the block; None for an empty one and for kinds of other tools."""
    text = "".join(slot.parts)
    block = slot.block
    match block.type:
        case "text" if text:
            return TextBlock(text)
        case "thinking":
            return ThinkingBlock(text, "".join(slot.signature) or None)
        case "redacted_thinking":
            return ThinkingBlock("", block.data, redacted=True)
        case "tool_use":
            arguments = parse_arguments("".join(slot.arguments)) or block.input or {}
            return ToolCall(block.id, block.name, arguments)
    return None


def _usage(usage: _Usage) -> Usage:
    prompt, output = count(usage.input_tokens), count(usage.output_tokens)
    read = count(usage.cache_read_input_tokens)
    cache_write = count(usage.cache_creation_input_tokens)
    return Usage(prompt, output, read, cache_write, prompt + output + read + cache_write)
