"""Adapter for APIs with the format `openai-responses`."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from skerry.features.openai_responses.request import API, request_body
from skerry.sdk.model_api import (
    URL,
    AnswerLimit,
    Downgrades,
    Endpoint,
    EventText,
    HttpClient,
    StreamingCall,
    bearer,
    count,
    decoded,
    efforts,
    parse_arguments,
    stream_failure,
)
from skerry.sdk.models import (
    Block,
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


class ResponsesProvider:
    """One endpoint. `providers.retry` repeats failed calls."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = URL(endpoint.base_url.rstrip("/") + "/responses")
        self._exchange = StreamingCall(http, endpoint, bearer(endpoint))
        self._downgrades = Downgrades[str]()

    @property
    def api(self) -> str:
        """Returns `openai-responses`."""
        return API

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""

        async def ask(effort: str, listener: ReplyListener) -> ModelReply:
            limits = self._endpoint.output_limit is not None
            body = request_body(request, effort, limits=limits)
            builder = ResponsesBuilder(self._endpoint.name)
            return await self._exchange.ask(request, self._url, body, builder, listener)

        return await self._downgrades.ask(request, listener, efforts(request), ask)


_NULL: Final = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    delta: str | None = None
    summary_index: int = 0
    item: msgspec.Raw = _NULL
    response: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


class _Part(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    phase: str | None = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _CachedDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _CachedDetails | None = None


class _Reason(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    incomplete_details: _Reason | None = None
    error: msgspec.Raw = _NULL


_events = msgspec.json.Decoder(_Event)
_items = msgspec.json.Decoder(_Item)
_responses = msgspec.json.Decoder(_Response)


@dataclass(slots=True)
class _Slot:
    """One output item while its deltas arrive."""

    item: _Item
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    raw: str = ""
    """The whole received item, when complete."""


class ResponsesBuilder:
    """Builds a reply from events: `take` returns the added text, `reply` the whole reply.

    `provider` is the provider's name in errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._slots: dict[int, _Slot] = {}
        self._usage = Usage()
        self._finish = ""
        self._limit = AnswerLimit(provider)

    @property
    def finished(self) -> bool:
        """Returns true after the finish marker; before it the answer is incomplete."""
        return bool(self._finish)

    @property
    def usage(self) -> Usage:
        """Returns the usage counted so far."""
        return self._usage

    @property
    def done(self) -> bool:
        """Returns true when no relevant event can follow."""
        return bool(self._finish)

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added.

        Raises:
            ModelStreamCutError: the event is not readable.
            ModelError: the event contains an error of the provider.
            ModelRequestError: the answer is longer than the limit.
        """
        if data == b"[DONE]":
            return None
        return self._event(decoded(_events, data, self._provider), data)

    def _event(self, event: _Event, data: bytes) -> EventText | None:
        """Processes an event; ignores progress, annotations and events of later versions."""
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._text_delta(event, thinking=False)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._text_delta(event, thinking=True)
            case "response.reasoning_summary_part.added" if event.summary_index:
                event.delta = "\n\n"
                return self._text_delta(event, thinking=True)
            case "response.output_item.done":
                return self._complete(event)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(event)
            case "error":
                failure = data if bytes(event.error) == b"null" else bytes(event.error)
                raise stream_failure(failure, self._provider)
            case _:
                self._begin(event)
        return None

    def _begin(self, event: _Event) -> None:
        """Processes the start of an item, or a delta of a call's arguments."""
        if event.type == "response.output_item.added":
            self._slot(event.output_index).item = decoded(_items, event.item, self._provider)
        elif event.type == "response.function_call_arguments.delta" and event.delta:
            self._limit.grow(len(event.delta))
            self._slot(event.output_index).arguments.append(event.delta)

    def _slot(self, index: int) -> _Slot:
        return self._slots.setdefault(index, _Slot(_Item()))

    def _text_delta(self, event: _Event, *, thinking: bool) -> EventText | None:
        if not event.delta:
            return None
        self._limit.grow(len(event.delta))
        self._slot(event.output_index).text.append(event.delta)
        return EventText(thinking=event.delta) if thinking else EventText(event.delta)

    def _complete(self, event: _Event) -> EventText | None:
        """Processes a complete item, which replaces its deltas; some servers send only this."""
        item = decoded(_items, event.item, self._provider)
        slot = self._slot(event.output_index)
        slot.item = item
        slot.raw = bytes(event.item).decode()
        if item.arguments is not None:
            slot.arguments = [item.arguments]
        if slot.text or item.type not in {"message", "reasoning"}:
            return None
        parts = [part.text or part.refusal or "" for part in item.summary or item.content or ()]
        event.delta = ("\n\n" if item.type == "reasoning" else "").join(parts)
        return self._text_delta(event, thinking=item.type == "reasoning")

    def _end(self, event: _Event) -> None:
        response = decoded(_responses, event.response, self._provider)
        if event.type == "response.failed":
            raise stream_failure(bytes(response.error), self._provider)
        if response.usage is not None:
            self._usage = _usage(response.usage)
        reason = (response.incomplete_details or _Reason()).reason
        self._finish = "stop" if event.type == "response.completed" else reason or "incomplete"

    def reply(self) -> ModelReply:
        """Returns the whole reply.

        Raises:
            ModelStreamCutError: the finish marker is missing.
            ModelRequestError: the content filter stopped the answer; the text before it was
            returned
                already, and a reply would count as the whole answer.
        """
        match self._finish:
            case "":
                raise ModelStreamCutError(
                    f"{self._provider} ended its answer without a finish marker."
                )
            case "content_filter":
                raise ModelRequestError(
                    f"The content filter of {self._provider} stopped the answer."
                )
        slots = (self._slots[index] for index in sorted(self._slots))
        content = tuple(block for slot in slots if (block := _block(slot)) is not None)
        called = any(isinstance(block, ToolCall) for block in content)
        stop_reason = "length" if self._finish != "stop" else "toolUse" if called else "stop"
        return ModelReply(content, stop_reason, self._usage)


def _block(slot: _Slot) -> Block | None:
    text = "".join(slot.text)
    item = slot.item
    match item.type:
        case "function_call":
            arguments: dict[str, Any] = parse_arguments("".join(slot.arguments))
            return ToolCall(item.call_id or item.id or "", item.name or "", arguments)
        case "reasoning":
            # Without either the provider refuses the item.
            signature = slot.raw if item.encrypted_content or item.content else None
            return ThinkingBlock(text, signature) if text or signature else None
        case _:
            return TextBlock(text, item.phase) if text else None


def _usage(usage: _Usage) -> Usage:
    """Converts the usage: `input` excludes tokens that the cache read or wrote."""
    prompt = count(usage.input_tokens)
    output = count(usage.output_tokens)
    details = usage.input_tokens_details or _CachedDetails()
    read, cache_write = count(details.cached_tokens), count(details.cache_write_tokens)
    return Usage(
        input=max(prompt - read - cache_write, 0),
        output=output,
        cache_read=read,
        cache_write=cache_write,
        total_tokens=count(usage.total_tokens) or prompt + output,
    )
