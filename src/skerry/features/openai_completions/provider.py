"""Adapter for APIs with the format `openai-completions`: OpenAI, local servers, most others."""

from typing import Any

import msgspec
from msgspec import Struct

from skerry.features.openai_completions.request import API, request_body
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
    ModelOverloadedError,
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


class CompatProvider:
    """One endpoint. `providers.retry` repeats failed calls."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = URL(endpoint.base_url.rstrip("/") + "/chat/completions")
        self._exchange = StreamingCall(http, endpoint, bearer(endpoint))
        self._downgrades = Downgrades[str]()

    @property
    def api(self) -> str:
        """Returns `openai-completions`."""
        return API

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`.

        The answer is complete with its finish reason; `[DONE]` alone is not enough.
        """

        async def ask(effort: str, listener: ReplyListener) -> ModelReply:
            body = request_body(request, self._endpoint.output_limit, effort)
            builder = CompatBuilder(self._endpoint.name)
            return await self._exchange.ask(request, self._url, body, builder, listener)

        return await self._downgrades.ask(request, listener, efforts(request), ask)


class _Thought(msgspec.Struct):
    text: str | None = None


class _Part(msgspec.Struct):
    text: str | None = None
    thinking: list[_Thought] | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _StreamEvent(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_StreamEvent)


class _Call(Struct):
    """One tool call while its deltas arrive."""

    id: str
    name: str
    arguments: list[str]


class CompatBuilder:
    """Builds a reply from events: `take` returns the added text, `reply` the whole reply.

    `provider` is the provider's name in errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._field = ""  # in which thinking arrives
        self._details: list[dict[str, Any]] = []
        self._detail_texts: list[
            tuple[str, list[str]]
        ] = []  # of each detail: its field, and its texts
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()
        self._finish = ""
        self._limit = AnswerLimit(provider)
        self._done = False

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
        """Returns true after `[DONE]`."""
        return self._done

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added.

        Raises:
            ModelStreamCutError: the event is not readable.
            ModelError: the event contains an error of the provider.
            ModelRequestError: the answer is longer than the limit.
        """
        if data == b"[DONE]":
            self._done = True
            return None
        event = decoded(_decoder, data, self._provider)
        if bytes(event.error) != b"null":
            raise stream_failure(bytes(event.error), self._provider)
        if event.usage is not None:
            self._usage = _usage(event.usage)
        return self._choice(event.choices[0]) if event.choices else None

    def _choice(self, choice: _Choice) -> EventText | None:
        self._finish = choice.finish_reason or self._finish
        delta = choice.delta
        if delta is None:
            return None
        if delta.tool_calls:
            for call_delta in delta.tool_calls:
                self._add(call_delta)
        text, thinking = delta.content, self._thought(delta)
        if isinstance(text, list):  # Mistral's reasoning models: blocks, some of them thinking
            thoughts = (thought.text or "" for part in text for thought in part.thinking or ())
            thinking += "".join(thoughts)
            text = "".join(part.text or "" for part in text)
        if not text and not thinking:
            return None
        added = EventText(text or "", thinking)
        self._limit.grow(len(added.text) + len(thinking))
        if added.text:
            self._text.append(added.text)
        if thinking:
            self._thinking.append(thinking)
        return added

    def _thought(self, delta: _Delta) -> str:
        """Returns the thinking of a delta; servers use different fields, and some send two."""
        if delta.reasoning_details:
            self._keep(delta.reasoning_details)
        if delta.reasoning_content:
            self._field = "reasoning_content"
            return delta.reasoning_content
        if delta.reasoning:
            self._field = self._field or "reasoning"
            return delta.reasoning
        return "".join(_readable(detail) for detail in delta.reasoning_details or ())

    def _keep(self, details: list[dict[str, Any]]) -> None:
        """Stores the provider's form of thinking, with the texts of one entry joined."""
        for detail in details:
            self._limit.grow(sum(len(value) for value in detail.values() if isinstance(value, str)))
            last = self._details[-1] if self._details else {}
            field = {"reasoning.text": "text", "reasoning.summary": "summary"}.get(
                str(detail.get("type"))
            )
            same = last.get("type") == detail.get("type") and last.get("index") == detail.get(
                "index"
            )
            if field and same:
                last |= {key: value for key, value in detail.items() if value is not None}
                self._detail_texts[-1][1].append(str(detail.get(field) or ""))
            else:
                self._details.append(detail)
                self._detail_texts.append(
                    (field or "", [str(detail.get(field) or "")] if field else [])
                )

    def _add(self, delta: _CallDelta) -> None:
        call = self._slot(delta)
        function = delta.function or _Function()
        call.name = call.name or function.name or ""
        if isinstance(function.arguments, dict):
            arguments = msgspec.json.encode(function.arguments).decode()
        else:
            arguments = function.arguments or ""
        self._limit.grow(len(arguments))
        call.arguments.append(arguments)

    def _slot(self, delta: _CallDelta) -> _Call:
        """Returns the call of a delta.

        The index identifies it, but a new id starts a new call, because some servers send index 0
        or none for all calls.
        """
        if delta.index is not None:
            call = self._by_index.get(delta.index)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or (delta.id and delta.id != call.id):
            call = _Call(delta.id or "", "", [])
            self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call

    def reply(self) -> ModelReply:
        """Returns the whole reply.

        Raises:
            ModelStreamCutError: the finish marker is missing.
            ModelOverloadedError: the provider stopped in the middle.
            ModelRequestError: its content filter stopped the answer; the text before it was
            returned
                already, and a reply would count as the whole answer.
        """
        if not self.finished:
            raise ModelStreamCutError(f"{self._provider} ended its answer without a finish marker.")
        if self._finish == "error":
            raise ModelOverloadedError(f"{self._provider} stopped in the middle of its answer.")
        if self._finish == "content_filter":
            raise ModelRequestError(f"The content filter of {self._provider} stopped the answer.")
        content: list[Block] = []
        for detail, (field, texts) in zip(self._details, self._detail_texts, strict=True):
            if len(texts) > 1:
                detail[field] = "".join(texts)
        if self._thinking or self._details:
            details = msgspec.json.encode(self._details).decode() if self._details else ""
            signature = details or self._field or None
            content.append(ThinkingBlock("".join(self._thinking), signature))
        if self._text:
            content.append(TextBlock("".join(self._text)))
        content += [
            ToolCall(call.id, call.name, parse_arguments("".join(call.arguments)))
            for call in self._calls
        ]
        stop_reason = "length" if self._finish == "length" else "toolUse" if self._calls else "stop"
        return ModelReply(tuple(content), stop_reason, self._usage)


def _readable(detail: dict[str, Any]) -> str:
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def _usage(usage: _Usage) -> Usage:
    """Converts the usage: `input` excludes the tokens from the provider's cache."""
    prompt = count(usage.prompt_tokens)
    output = count(usage.completion_tokens)
    cached = count((usage.prompt_tokens_details or _PromptDetails()).cached_tokens)
    return Usage(
        input=max(prompt - cached, 0),
        output=output,
        cache_read=cached,
        total_tokens=count(usage.total_tokens) or prompt + output,
    )
