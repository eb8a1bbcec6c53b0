"""The contract of `ports.model.ModelProvider`, kept by every provider. A new one adds a row."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio
import anyio.abc
import pytest

from scripts.requirements import ROOT
from skerry.infra.features import WIRE_FORMATS
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelError,
    ModelRateLimitError,
    ModelStreamCutError,
)
from skerry.model.message import ToolCall, user
from skerry.model.tool import ToolSpec
from skerry.ports.model import (
    History,
    ModelInfo,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ReplyListener,
)
from skerry.providers.model_apis import ModelApis
from skerry.providers.retry import RetryingProvider, RetryPolicy
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.features import model_apis
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from skerry.testing.plugin import loaded_plugin
from tests.support.served import serving
from tests.support.streams import REPLIES, recorded

Scene = str
"""`text`, `tools`, `cut`, `refused` (the key), `slow down`, or `held` after a first text."""
Row = Callable[[Scene], AbstractAsyncContextManager[ModelProvider]]
KEY: Final = "sk-canary"
TOOLS: Final = {"openai-completions": "tools"}
STATUS: Final = {"refused": "401 No", "slow down": "429 Slow\r\nretry-after: 7"}
ERROR: Final = b'{"error":{"code":1,"message":"not with %b","details":[]}}' % KEY.encode()


def half(api: str) -> bytes:
    """Returns the first events of a recorded text: some of the text, and no end."""
    body = recorded(f"{api}/text")
    newline = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    events = body.split(newline)
    return newline.join(events[: len(events) // 2]) + newline


@asynccontextmanager
async def holding(body: bytes) -> AsyncIterator[str]:
    """Serves the beginning of a stream, and then nothing more, while the client stays."""

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            await stream.send(head.encode() + body)
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's, no SQL
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


def over(api: str, wrap: Callable[[ModelProvider], ModelProvider] = lambda inner: inner) -> Row:
    """Returns the row of an adapter over a real socket with recorded answers."""

    @asynccontextmanager
    async def make(scene: Scene) -> AsyncIterator[ModelProvider]:
        version = "" if api == "google-generative-ai" else "/v1"
        tools = recorded(f"{api}/{TOOLS.get(api, 'thinking-and-tools')}")
        bodies = {"text": recorded(f"{api}/text"), "tools": tools, "cut": half(api)}
        async with HttpClient() as http:
            if scene == "held":
                async with holding(half(api)) as url:
                    yield wrap(model_apis().open(http, Endpoint("P", url + version, KEY, api=api)))
                return
            async with serving(bodies.get(scene, ERROR), STATUS.get(scene, "200 OK")) as served:
                yield wrap(
                    model_apis().open(http, Endpoint("P", served.url + version, KEY, api=api))
                )

    return make


BROOK: Final = ROOT / "docs/examples/plugins/brook"
EVENTS: Final[dict[Scene, list[bytes]]] = {
    "text": [
        b'{"add":"Hello, "}',
        '{"add":"Größe"}'.encode(),
        b'{"end":"stop","read":3,"wrote":2}',
    ],
    "tools": [
        b'{"add":"I look."}',
        b'{"call":{"id":"c1","name":"read","arguments":{"path":"a.txt"}}}',
        b'{"end":"tool","read":3,"wrote":2}',
    ],
    "cut": [b'{"add":"Hel"}'],
}
"""Answers in the format of the example plugin."""


@asynccontextmanager
async def plugin_format(scene: Scene) -> AsyncIterator[ModelProvider]:
    """Opens the wire format of the example plugin, which the loader of the gateway loaded."""
    bodies = {
        name: b"".join(b"data: %b\n\n" % event for event in events)
        for name, events in EVENTS.items()
    }
    async with loaded_plugin(BROOK) as plugin, HttpClient() as http:
        apis = ModelApis({})
        for api in plugin.plugins.registered["brook"].model_apis:
            apis.add(api)
        if scene == "held":
            async with holding(bodies["cut"]) as url:
                yield apis.open(http, Endpoint("P", url, KEY, api="brook.lines"))
            return
        async with serving(bodies.get(scene, ERROR), STATUS.get(scene, "200 OK")) as served:
            yield apis.open(http, Endpoint("P", served.url, KEY, api="brook.lines"))


SCRIPTS: Final[dict[Scene, list[Step]]] = {
    "text": ["Hello, ", "Größe"],
    "tools": ["I look.", ToolCall("c1", "read", {"path": "a.txt"})],
    "cut": ["Hel", ModelStreamCutError("it ended early")],
    "refused": [ModelAuthError("not with this key")],
    "slow down": [ModelRateLimitError("slow down", retry_after=7.0)],
}


def scripted(kind: type[ScriptedModel] = ScriptedModel) -> Row:
    """Returns the row of the model of the tests."""

    @asynccontextmanager
    async def make(scene: Scene) -> AsyncIterator[ModelProvider]:
        yield kind([SCRIPTS.get(scene, ["Hel", ReplyGate()])])

    return make


def retrying(inner: ModelProvider) -> ModelProvider:
    return RetryingProvider(inner, RetryPolicy(attempts=1))


ROWS: Final[dict[str, Row]] = {
    **{api: over(api) for api in WIRE_FORMATS},
    "brook.lines": plugin_format,
    "retrying": over("openai-completions", retrying),
    "scripted": scripted(),
}


class Call:
    """One call of a provider: its request, its events and its result."""

    def __init__(self, provider: ModelProvider) -> None:
        self.history = History([user("hi", 1)])
        model = ModelInfo("p", "m", "M", reasoning=True, api=provider.api)
        tools = (ToolSpec("read", "Read.", {"type": "object"}),)
        self.request = ModelRequest(model, "be brief", self.history, tools)
        self.texts: list[str] = []
        self._provider = provider

    async def reply(self) -> ModelReply:
        with anyio.fail_after(60):
            return await self._provider.complete(self.request, ReplyListener(self.texts.append))


async def failure(row: Row, scene: Scene) -> tuple[Call, ModelError]:
    async with row(scene) as provider:
        call = Call(provider)
        with pytest.raises(ModelError) as caught:
            await call.reply()
        return call, caught.value


async def says_its_wire_format(row: Row) -> None:
    async with row("text") as provider:
        assert provider.api


async def pushes_in_order_what_it_returns_whole(row: Row) -> None:
    async with row("text") as provider:
        call = Call(provider)
        reply = await call.reply()
    assert reply.text
    assert "".join(call.texts) == reply.text
    assert reply.stop_reason == "stop"
    assert reply.usage.total_tokens > 0


async def returns_calls_of_tools_whole(row: Row) -> None:
    async with row("tools") as provider:
        call = Call(provider)
        reply = await call.reply()
    assert reply.stop_reason == "toolUse"
    assert [
        (tool_call.name, tool_call.arguments["path"]) for tool_call in reply.tool_calls[:1]
    ] == [("read", "a.txt")]
    assert "".join(call.texts) == reply.text


async def leaves_the_conversation_as_it_was(row: Row) -> None:
    for scene in ("text", "cut"):
        async with row(scene) as provider:
            call = Call(provider)
            with anyio.CancelScope():
                try:
                    await call.reply()
                except ModelError:
                    assert scene == "cut"
        assert call.history.messages == [user("hi", 1)]


async def calls_a_stream_without_an_end_cut(row: Row) -> None:
    call, error = await failure(row, "cut")
    assert type(error) is ModelStreamCutError
    assert "".join(call.texts)


async def names_why_it_is_refused_and_no_key(row: Row) -> None:
    for scene, kind in (("refused", ModelAuthError), ("slow down", ModelRateLimitError)):
        call, error = await failure(row, scene)
        assert type(error) is kind
        assert KEY not in f"{error}{error.remedy}"
        assert call.texts == []
        if isinstance(error, ModelRateLimitError):
            assert error.retry_after == 7.0


async def ends_when_it_is_cancelled_and_leaves_what_was_pushed(row: Row) -> None:
    async with row("held") as provider:
        call = Call(provider)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.reply)
            with anyio.fail_after(60):
                while not call.texts:  # noqa: ASYNC110 - another socket sends it
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
    assert "".join(call.texts)


CONTRACT: Final[list[Callable[[Row], Awaitable[None]]]] = [
    says_its_wire_format,
    pushes_in_order_what_it_returns_whole,
    returns_calls_of_tools_whole,
    leaves_the_conversation_as_it_was,
    calls_a_stream_without_an_end_cut,
    names_why_it_is_refused_and_no_key,
    ends_when_it_is_cancelled_and_leaves_what_was_pushed,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_provider_keeps_the_contract(
    row: Row, clause: Callable[[Row], Awaitable[None]]
) -> None:
    await clause(row)


def test_every_wire_format_has_a_row_and_a_recording() -> None:
    assert set(WIRE_FORMATS) <= ROWS.keys()
    assert {f"{api}/text" for api in WIRE_FORMATS} <= REPLIES.keys()


class Stuttering(ScriptedModel):
    """Pushes each text twice."""

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        def twice(text: str) -> None:
            listener.on_text(text)
            listener.on_text(text)

        return await super().complete(request, ReplyListener(twice))


class Lenient(ScriptedModel):
    """Takes a stream that was cut for a whole one."""

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        try:
            return await super().complete(request, listener)
        except ModelStreamCutError:
            return await ScriptedModel([["Hel"]]).complete(request, ReplyListener())


class Adding(ScriptedModel):
    """Adds a message to the conversation that it was given."""

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        request.history.append(user("more", 2))
        return await super().complete(request, listener)


class Forgetful(ScriptedModel):
    """Loses the calls of tools."""

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        reply = await super().complete(request, listener)
        return ModelReply(reply.content[:1], "stop", reply.usage)


class Vague(ScriptedModel):
    """Has one error for everything."""

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        try:
            return await super().complete(request, listener)
        except ModelError as error:
            raise ModelError(f"it failed with {KEY}") from error


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Stuttering, pushes_in_order_what_it_returns_whole),
        (Lenient, calls_a_stream_without_an_end_cut),
        (Adding, leaves_the_conversation_as_it_was),
        (Forgetful, returns_calls_of_tools_whole),
        (Vague, names_why_it_is_refused_and_no_key),
    ],
)
async def test_a_provider_with_a_defect_breaks_it(
    defect: type[ScriptedModel], clause: Callable[[Row], Awaitable[None]]
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await clause(scripted(defect))
