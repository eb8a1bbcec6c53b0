"""Adapter for APIs with the format `google-generative-ai`: Gemini."""

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from skerry.features.google_generative_ai.request import (
    API,
    Thinking,
    request_body,
    thinking_forms,
)
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

_VERSION: Final = re.compile(r"/v\d[a-z0-9]*$")
_DEFAULT_VERSION: Final = "/v1beta"  # v1 lacks many request fields, and many servers lack v1


def headers(endpoint: Endpoint) -> dict[str, str]:
    """Returns the header of every request: the key."""
    return {"x-goog-api-key": endpoint.api_key} if endpoint.api_key else {}


def models_url(base_url: str) -> str:
    """Returns the address of the list of models."""
    return f"{_versioned(base_url)}/models?pageSize=1000"


def _versioned(base_url: str) -> str:
    """Returns the address with the version of the API, which may be missing."""
    base = base_url.rstrip("/")
    return base if _VERSION.search(base) else base + _DEFAULT_VERSION


class GoogleProvider:
    """One endpoint. `providers.retry` repeats failed calls."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._base = _versioned(endpoint.base_url)
        self._exchange = StreamingCall(http, endpoint, headers(endpoint))
        self._downgrades = Downgrades[Thinking]()

    @property
    def api(self) -> str:
        """Returns `google-generative-ai`."""
        return API

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        model = request.model.id
        name = model if "/" in model else f"models/{model}"
        url = URL(f"{self._base}/{quote(name)}:streamGenerateContent?alt=sse")

        async def ask(thinking: Thinking, listener: ReplyListener) -> ModelReply:
            limits = self._endpoint.output_limit is not None
            body = request_body(request, thinking, limits=limits)
            builder = GoogleBuilder(self._endpoint.name)
            return await self._exchange.ask(request, url, body, builder, listener)

        return await self._downgrades.ask(request, listener, thinking_forms(request), ask)


_FINISHED: Final = {"STOP", "MAX_TOKENS", "FUNCTION_CALL"}
_UNLUCKY: Final = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
}
"""Finish reason of output that the provider could not read; a repeated call usually succeeds."""
_UNSPECIFIED: Final = {"FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"}


class _Call(msgspec.Struct):
    id: str | None = None
    name: str = ""
    args: dict[str, Any] | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class _StreamEvent(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_StreamEvent)


@dataclass(slots=True)
class _TextBuffer:
    """Text or thinking while it arrives."""

    thought: bool
    text: list[str] = field(default_factory=list)
    signature: str | None = None


class GoogleBuilder:
    """Builds a reply from events: `take` returns the added text, `reply` the whole reply.

    `provider` is the provider's name in errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: list[_TextBuffer | ToolCall] = []
        self._usage = Usage()
        self._finish = ""
        self._explanation = ""
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
        """Returns false: usage may follow the marker, so only the end of the response counts."""
        return False

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added.

        Raises:
            ModelStreamCutError: the event is not readable.
            ModelError: the event contains an error of the provider.
            ModelRequestError: the prompt was blocked, or the answer is longer than the limit.
        """
        if data == b"[DONE]":
            return None
        event = decoded(_decoder, data, self._provider)
        if bytes(event.error) != b"null":
            raise stream_failure(bytes(event.error), self._provider)
        if event.usage_metadata is not None:
            self._usage = _usage(event.usage_metadata)
        blocked = event.prompt_feedback and event.prompt_feedback.block_reason
        if blocked and blocked not in _UNSPECIFIED:
            raise ModelRequestError(f"{self._provider} blocked the prompt ({blocked}).")
        return self._candidate(event.candidates[0]) if event.candidates else None

    def _candidate(self, candidate: _Candidate) -> EventText | None:
        if candidate.finish_reason and candidate.finish_reason not in _UNSPECIFIED:
            self._finish = candidate.finish_reason
            self._explanation = candidate.finish_message or ""
        texts: list[str] = []
        thoughts: list[str] = []
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call is not None:
                self._call(part.function_call, part.thought_signature)
                continue
            text = part.text or ""
            self._speak(text, part)
            (thoughts if part.thought else texts).append(text)
        added = EventText("".join(texts), "".join(thoughts))
        return added if added.text or added.thinking else None

    def _speak(self, text: str, part: _Part) -> None:
        """Adds to the present block or starts one; a signature belongs to the block so far."""
        self._limit.grow(len(text))
        if not (text or part.thought_signature):
            return
        last = self._blocks[-1] if self._blocks else None
        if not isinstance(last, _TextBuffer) or last.thought is not bool(part.thought):
            last = _TextBuffer(bool(part.thought))
            self._blocks.append(last)
        last.text.append(text)
        last.signature = part.thought_signature or last.signature

    def _call(self, call: _Call, signature: str | None) -> None:
        arguments = call.args or {}
        self._limit.grow(len(msgspec.json.encode(arguments)))
        self._blocks.append(ToolCall(call.id or "", call.name, arguments, signature))

    def reply(self) -> ModelReply:
        """Returns the whole reply.

        Raises:
            ModelStreamCutError: the finish marker is missing, or the model wrote a call that the
                provider could not read.
            ModelOverloadedError: the provider stopped without a reason.
            ModelRequestError: a filter stopped the answer; the text before it was returned already.
        """
        if not self.finished:
            raise ModelStreamCutError(f"{self._provider} ended its answer without a finish marker.")
        if self._finish not in _FINISHED:
            raise self._stopped()
        content = tuple(_block(block) for block in self._blocks)
        called = any(isinstance(block, ToolCall) for block in content)
        length = self._finish == "MAX_TOKENS"
        stop_reason = "length" if length else "toolUse" if called else "stop"
        return ModelReply(content, stop_reason, self._usage)

    def _stopped(self) -> ModelStreamCutError | ModelOverloadedError | ModelRequestError:
        reason = f"{self._finish}: {self._explanation}" if self._explanation else self._finish
        if self._finish in _UNLUCKY:
            return ModelStreamCutError(f"{self._provider} could not read what it wrote ({reason}).")
        if self._finish == "OTHER":
            return ModelOverloadedError(
                f"{self._provider} stopped in the middle of its answer ({reason})."
            )
        return ModelRequestError(f"{self._provider} stopped the answer ({reason}).")


def _block(part: _TextBuffer | ToolCall) -> Block:
    if isinstance(part, ToolCall):
        return part
    text = "".join(part.text)
    return ThinkingBlock(text, part.signature) if part.thought else TextBlock(text, part.signature)


def _usage(usage: _Usage) -> Usage:
    """Converts the usage: `input` excludes cached tokens; thinking is billed as output."""
    cached = count(usage.cached_content_token_count)
    prompt = count(usage.prompt_token_count) + count(usage.tool_use_prompt_token_count)
    output = count(usage.candidates_token_count) + count(usage.thoughts_token_count)
    return Usage(
        input=max(prompt - cached, 0),
        output=output,
        cache_read=cached,
        total_tokens=count(usage.total_token_count) or prompt + output,
    )
