"""The format `brook.lines`: a request is one JSON object, an answer a stream of small events.

{"add": "Hello"}                                        text
{"call": {"id": "c1", "name": "read", "arguments": {}}} a call of a tool
{"end": "stop", "read": 12, "wrote": 3}                 the end, with the tokens
"""

from typing import Any, Final

import msgspec

from skerry.sdk.model_api import (
    URL,
    AnswerLimit,
    Endpoint,
    EventText,
    HttpClient,
    Items,
    StreamingCall,
    bearer,
    count,
    decoded,
    stream_failure,
)
from skerry.sdk.models import (
    AssistantMessage,
    Message,
    ModelReply,
    ModelRequest,
    ModelStreamCutError,
    ReplyListener,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)

API: Final = "brook.lines"
_encode = msgspec.json.Encoder().encode


class BrookProvider:
    """One endpoint. The gateway repeats failed calls, and calls other models."""

    api = API

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._name = endpoint.name
        self._url = URL(f"{endpoint.base_url.rstrip('/')}/brook")
        self._call = StreamingCall(http, endpoint, bearer(endpoint))

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; passes the text to `listener` as it arrives."""
        builder = BrookBuilder(self._name)
        return await self._call.ask(request, self._url, request_body(request), builder, listener)


def request_body(request: ModelRequest) -> bytes:
    """Returns the request. The history caches each message in this form."""
    items = request.history.form(API, lambda: Items(_message))
    head = {
        "model": request.model.id,
        "system": request.system,
        "tools": [{"name": tool.name, "about": tool.description} for tool in request.tools],
    }
    return _encode(head)[:-1] + b',"messages":[' + items.since(request.first) + b"]}"


def _message(message: Message) -> bytes:
    match message:
        case AssistantMessage():
            calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
            return _encode({"from": "model", "text": message.text, "calls": calls})
        case ToolResultMessage():
            return _encode({"from": message.tool_call_id, "text": message.text})
        case _:
            return _encode({"from": "user", "text": message.text})


class _Call(msgspec.Struct):
    id: str
    name: str
    arguments: dict[str, Any] = {}


class _Event(msgspec.Struct):
    add: str = ""
    call: _Call | None = None
    end: str = ""
    read: int = 0
    wrote: int = 0
    error: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Event)


class BrookBuilder:
    """Assembles the events of one response. Implements `ReplyBuilder`."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._limit = AnswerLimit(provider)
        self.usage = Usage()
        self.finished = False

    @property
    def done(self) -> bool:
        """Returns whether the response is complete."""
        return self.finished

    def take(self, data: bytes) -> EventText | None:
        """Returns the text that an event added."""
        event = decoded(_decoder, data, self._provider)
        if bytes(event.error) != b"null":
            raise stream_failure(bytes(event.error), self._provider)
        if event.call is not None:
            self._calls.append(ToolCall(event.call.id, event.call.name, event.call.arguments))
        if event.end:
            read, wrote = count(event.read), count(event.wrote)
            self.usage = Usage(read, wrote, total_tokens=read + wrote)
            self.finished = True
        if not event.add:
            return None
        self._limit.grow(len(event.add))
        self._texts.append(event.add)
        return EventText(event.add)

    def reply(self) -> ModelReply:
        """Returns the whole reply; an answer without an end event was cut off."""
        if not self.finished:
            raise ModelStreamCutError(f"{self._provider} ended its answer without an end.")
        text = [TextBlock("".join(self._texts))] if self._texts else []
        stop_reason = "toolUse" if self._calls else "stop"
        return ModelReply((*text, *self._calls), stop_reason, self.usage)
