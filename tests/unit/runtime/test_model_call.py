"""A model call: its text, its kept content, its failure."""

import anyio
import pytest

from skerry.model.errors import ModelStreamCutError
from skerry.model.event import LoopEvent, MessageUpdate, ThinkingUpdate
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.ports.model_candidates import CallTarget
from skerry.runtime.model_call import Failover, ModelCall
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels
from tests.support.ledger import Books

READ = ToolCall("c1", "read", {})


async def ask(model: ModelInfo) -> ModelRequest:
    return ModelRequest(model, "system", History())


def speaker(models: ScriptedModels, events: list[LoopEvent]) -> ModelCall:
    return ModelCall(
        Failover(models, CallTarget("a/b"), Books()), events.append, FakeClock(7).now_ms
    )


async def test_a_response_is_told_in_pieces_and_returned_whole() -> None:
    events: list[LoopEvent] = []
    models = ScriptedModels(ScriptedModel([["Hel", "lo", READ]]))
    model_call = speaker(models, events)
    response = await model_call.respond(ask)
    assert events == [MessageUpdate("Hel"), MessageUpdate("lo")]
    assert (response.text, response.tool_calls, response.stop_reason) == (
        "Hello",
        (READ,),
        "toolUse",
    )
    assert (response.api, response.provider, response.model, response.timestamp) == (
        "script",
        "test",
        "script",
        7,
    )
    assert (model_call.failure, model_call.draft.text) == (None, "")


async def test_a_nul_of_a_model_reaches_neither_the_person_nor_the_store() -> None:
    events: list[LoopEvent] = []
    models = ScriptedModels(
        ScriptedModel([["a\0", "b", READ], ["c\0", ModelStreamCutError("cut")]])
    )
    model_call = speaker(models, events)
    assert (await model_call.respond(ask)).content == (TextBlock("a\ufffdb"), READ)
    assert (await model_call.respond(ask)).text == "c\ufffd"
    assert events == [MessageUpdate("a\ufffd"), MessageUpdate("b"), MessageUpdate("c\ufffd")]


async def test_the_model_is_chosen_once_for_the_whole_run_and_its_tokens_add_up() -> None:
    models = ScriptedModels(ScriptedModel([["a"], ["b", "c"]]))
    model_call = speaker(models, [])
    await model_call.respond(ask)
    await model_call.respond(ask)
    assert models.chosen == ["a/b"]
    assert model_call.usage == Usage(output=3, total_tokens=2)


async def test_a_failure_is_a_message_with_what_was_said_until_then() -> None:
    models = ScriptedModels(ScriptedModel([["par", ModelStreamCutError("cut")], ["whole"]]))
    model_call = speaker(models, [])
    response = await model_call.respond(ask)
    assert (response.text, response.stop_reason, response.error_message) == ("par", "error", "cut")
    assert model_call.failure is not None
    assert (model_call.failure.code, model_call.failure.retryable) == ("model.stream_cut", True)
    second = await model_call.respond(ask)
    assert second.text == "whole"
    assert model_call.failure is None


async def test_without_any_model_the_message_says_so() -> None:
    model_call = speaker(ScriptedModels(None), [])
    response = await model_call.respond(ask)
    assert (response.stop_reason, response.api, model_call.provider, model_call.model) == (
        "error",
        "",
        "",
        "",
    )
    assert model_call.failure is not None
    assert model_call.failure.code == "model.unavailable"


@pytest.mark.parametrize("reply", [[], [" \n"]], ids=["nothing", "blanks"])
async def test_an_empty_answer_is_a_failure(reply: list[str]) -> None:
    model_call = speaker(ScriptedModels(ScriptedModel([reply])), [])
    assert (await model_call.respond(ask)).stop_reason == "error"
    assert model_call.failure is not None
    assert model_call.failure.code == "model.empty_reply"


async def test_calls_without_words_are_no_empty_answer() -> None:
    model_call = speaker(ScriptedModels(ScriptedModel([[READ]])), [])
    assert (await model_call.respond(ask)).content == (READ,)


async def test_a_cancelled_call_leaves_its_text_behind() -> None:
    gate = ReplyGate()
    model_call = speaker(ScriptedModels(ScriptedModel([["so ", "far", gate]])), [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model_call.respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    message = model_call.broken_off("aborted", None)
    assert (message.text, message.stop_reason, message.error_message) == ("so far", "aborted", None)


async def test_a_defect_is_not_taken_for_a_failure_of_the_model() -> None:
    class Broken:
        api = "broken"

        async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
            listener.on_text("so far")
            raise KeyError(request.system)

    model_call = speaker(ScriptedModels(Broken()), [])
    with pytest.raises(KeyError):
        await model_call.respond(ask)


async def test_thinking_is_told_apart_from_text_and_kept_with_its_signature() -> None:
    events: list[LoopEvent] = []
    thinking = ThinkingBlock("Hm.", "sig")
    models = ScriptedModels(ScriptedModel([[thinking, "42", READ]]))
    response = await speaker(models, events).respond(ask)
    assert events == [ThinkingUpdate("Hm."), MessageUpdate("42")]
    assert response.content == (thinking, TextBlock("42"), READ)
    assert response.text == "42"


async def test_what_a_cancelled_call_thought_is_left_behind_too() -> None:
    gate = ReplyGate()
    model_call = speaker(ScriptedModels(ScriptedModel([[ThinkingBlock("Hm."), "so", gate]])), [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model_call.respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    assert model_call.draft.text == "so"
    assert model_call.broken_off("aborted", None).content == (ThinkingBlock("Hm."), TextBlock("so"))


@pytest.mark.parametrize(("tokens", "code"), [(10, "model.empty_reply"), (11, "model.overflow")])
async def test_silence_above_the_window_is_an_overflow(tokens: int, code: str) -> None:
    class Silent:
        api = "script"

        async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
            del request, listener
            return ModelReply((), "stop", Usage(input=1, cache_read=tokens - 1))

    model_call = speaker(ScriptedModels(Silent(), ModelInfo("a", "b", "B", context_window=10)), [])
    await model_call.respond(ask)
    assert model_call.failure is not None
    assert model_call.failure.code == code
