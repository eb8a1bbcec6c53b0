"""One model call: what it says, what is kept of it, what becomes of its failure."""

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


def speaker(models: ScriptedModels, told: list[LoopEvent]) -> ModelCall:
    return ModelCall(Failover(models, CallTarget("a/b"), Books()), told.append, FakeClock(7).now_ms)


async def test_a_response_is_told_in_pieces_and_returned_whole() -> None:
    told: list[LoopEvent] = []
    models = ScriptedModels(ScriptedModel([["Hel", "lo", READ]]))
    one = speaker(models, told)
    said = await one.respond(ask)
    assert told == [MessageUpdate("Hel"), MessageUpdate("lo")]
    assert (said.text, said.tool_calls, said.stop_reason) == ("Hello", (READ,), "toolUse")
    assert (said.api, said.provider, said.model, said.timestamp) == ("script", "test", "script", 7)
    assert (one.failure, one.draft.text) == (None, "")


async def test_a_nul_of_a_model_reaches_neither_the_person_nor_the_store() -> None:
    told: list[LoopEvent] = []
    models = ScriptedModels(
        ScriptedModel([["a\0", "b", READ], ["c\0", ModelStreamCutError("cut")]])
    )
    one = speaker(models, told)
    assert (await one.respond(ask)).content == (TextBlock("a\ufffdb"), READ)
    assert (await one.respond(ask)).text == "c\ufffd"
    assert told == [MessageUpdate("a\ufffd"), MessageUpdate("b"), MessageUpdate("c\ufffd")]


async def test_the_model_is_chosen_once_for_the_whole_run_and_its_tokens_add_up() -> None:
    models = ScriptedModels(ScriptedModel([["a"], ["b", "c"]]))
    one = speaker(models, [])
    await one.respond(ask)
    await one.respond(ask)
    assert models.chosen == ["a/b"]
    assert one.usage == Usage(output=3, total_tokens=2)


async def test_a_failure_is_a_message_with_what_was_said_until_then() -> None:
    models = ScriptedModels(ScriptedModel([["par", ModelStreamCutError("cut")], ["whole"]]))
    one = speaker(models, [])
    said = await one.respond(ask)
    assert (said.text, said.stop_reason, said.error_message) == ("par", "error", "cut")
    assert one.failure is not None
    assert (one.failure.code, one.failure.retryable) == ("model.stream_cut", True)
    again = await one.respond(ask)
    assert again.text == "whole"
    assert one.failure is None


async def test_without_any_model_the_message_says_so() -> None:
    one = speaker(ScriptedModels(None), [])
    said = await one.respond(ask)
    assert (said.stop_reason, said.api, one.provider, one.model) == ("error", "", "", "")
    assert one.failure is not None
    assert one.failure.code == "model.unavailable"


@pytest.mark.parametrize("reply", [[], [" \n"]], ids=["nothing", "blanks"])
async def test_an_empty_answer_is_a_failure(reply: list[str]) -> None:
    one = speaker(ScriptedModels(ScriptedModel([reply])), [])
    assert (await one.respond(ask)).stop_reason == "error"
    assert one.failure is not None
    assert one.failure.code == "model.empty_reply"


async def test_calls_without_words_are_no_empty_answer() -> None:
    one = speaker(ScriptedModels(ScriptedModel([[READ]])), [])
    assert (await one.respond(ask)).content == (READ,)


async def test_a_cancelled_call_leaves_its_text_behind() -> None:
    gate = ReplyGate()
    one = speaker(ScriptedModels(ScriptedModel([["so ", "far", gate]])), [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    said = one.broken_off("aborted", None)
    assert (said.text, said.stop_reason, said.error_message) == ("so far", "aborted", None)


async def test_a_defect_is_not_taken_for_a_failure_of_the_model() -> None:
    class Broken:
        api = "broken"

        async def complete(self, request: ModelRequest, hear: ReplyListener) -> ModelReply:
            hear.on_text("so far")
            raise KeyError(request.system)

    one = speaker(ScriptedModels(Broken()), [])
    with pytest.raises(KeyError):
        await one.respond(ask)


async def test_thinking_is_told_apart_from_text_and_kept_with_its_signature() -> None:
    told: list[LoopEvent] = []
    thinking = ThinkingBlock("Hm.", "sig")
    models = ScriptedModels(ScriptedModel([[thinking, "42", READ]]))
    said = await speaker(models, told).respond(ask)
    assert told == [ThinkingUpdate("Hm."), MessageUpdate("42")]
    assert said.content == (thinking, TextBlock("42"), READ)
    assert said.text == "42"


async def test_what_a_cancelled_call_thought_is_left_behind_too() -> None:
    gate = ReplyGate()
    one = speaker(ScriptedModels(ScriptedModel([[ThinkingBlock("Hm."), "so", gate]])), [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    assert one.draft.text == "so"
    assert one.broken_off("aborted", None).content == (ThinkingBlock("Hm."), TextBlock("so"))


@pytest.mark.parametrize(("tokens", "code"), [(10, "model.empty_reply"), (11, "model.overflow")])
async def test_silence_above_the_window_is_an_overflow(tokens: int, code: str) -> None:
    class Silent:
        api = "script"

        async def complete(self, request: ModelRequest, hear: ReplyListener) -> ModelReply:
            del request, hear
            return ModelReply((), "stop", Usage(input=1, cache_read=tokens - 1))

    one = speaker(ScriptedModels(Silent(), ModelInfo("a", "b", "B", context_window=10)), [])
    await one.respond(ask)
    assert one.failure is not None
    assert one.failure.code == code
