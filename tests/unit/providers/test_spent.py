"""Tokens that a provider counted before a failure or an abort are reported and recorded."""

import anyio
import pytest

from skerry.features.anthropic_messages.provider import AnthropicProvider
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelStreamCutError
from skerry.model.message import Usage, user
from skerry.ports.model import (
    History,
    ModelCost,
    ModelInfo,
    ModelProvider,
    ModelRequest,
    ReplyListener,
)
from skerry.ports.model_candidates import CallTarget, ModelCallEnded
from skerry.providers.retry import RetryingProvider
from skerry.providers.streaming_call import Endpoint
from skerry.runtime.model_call import Failover, ModelCall
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModels
from skerry.testing.model_server import Cut, HttpStep, StubModelServer
from tests.support.ledger import Books

MODEL = ModelInfo("stub", "m", "Stub", cost=ModelCost(input=1_000_000))
BEGUN = Usage(8, 1, 4, 0, 13)
"""What the stub counts when a response begins; with its end it is 3 out."""


def request() -> ModelRequest:
    return ModelRequest(MODEL, "", History([user("hi", 1)]))


async def ask(_: ModelInfo) -> ModelRequest:
    return request()


def provider(http: HttpClient, stub: StubModelServer) -> ModelProvider:
    return AnthropicProvider(http, Endpoint("Stub", stub.base_url))


async def test_a_stream_that_breaks_off_tells_what_was_counted() -> None:
    spent: list[Usage] = []
    async with StubModelServer([["so ", Cut()], ["ok"]]) as stub, HttpClient() as http:
        model_provider = provider(http, stub)
        with pytest.raises(ModelStreamCutError):
            await model_provider.complete(request(), ReplyListener(on_spent=spent.append))
        assert spent == [BEGUN]
        await model_provider.complete(request(), ReplyListener(on_spent=spent.append))
        assert spent == [BEGUN]  # a whole reply has its own count


async def booked(script: list[list[HttpStep]], *, gate: ReplyGate | None = None) -> ModelCallEnded:
    """Returns the recorded usage of one call over a provider that retries."""
    books = Books()
    async with StubModelServer(script) as stub, HttpClient() as http:

        async def at_once(_: float) -> None:
            await anyio.lowlevel.checkpoint()

        retrying = RetryingProvider(provider(http, stub), sleep=at_once)
        failover = Failover(ScriptedModels(retrying, MODEL), CallTarget(), books)
        speaker = ModelCall(failover, lambda _: None, FakeClock().now_ms)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(speaker.respond, ask)
                if gate is not None:
                    await gate.reached.wait()
                    while not speaker.draft.text:
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
    (call,) = books.calls
    return call


async def test_tries_that_failed_on_the_way_count() -> None:
    call = await booked([[Cut()], ["ok"]])
    assert call.error is None
    assert (call.usage.input, call.usage.output, call.usage.cache_read) == (16, 4, 8)
    assert call.usage.cost.total == 16.0


async def test_a_call_that_was_given_up_has_what_was_counted() -> None:
    gate = ReplyGate()
    call = await booked([["so far ", gate, "never"]], gate=gate)
    assert call.error is not None
    assert (call.error.code, call.usage.input, call.usage.cost.total) == ("run.aborted", 8, 8.0)
