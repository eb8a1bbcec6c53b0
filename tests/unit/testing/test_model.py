"""The scripted model of the tests."""

import anyio
import pytest

from skerry.model.errors import ModelOverloadedError, ModelRequestError, ModelUnavailableError
from skerry.model.message import TextBlock, ToolCall, ToolResultMessage, user
from skerry.ports.model import History, ModelReply, ModelRequest, ModelState, ReplyListener
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, ScriptedModels, echo

CALL = ToolCall("c", "read", {"path": "a"})


def request(text: str = "hi") -> ModelRequest:
    return ModelRequest(MODEL, "system", History([user(text, 1)]))


async def test_each_call_plays_the_next_reply() -> None:
    model = ScriptedModel([["Hel", "lo"], ["Let me see.", CALL]])
    texts: list[str] = []
    first = await model.complete(request(), ReplyListener(texts.append))
    second = await model.complete(request(), ReplyListener(texts.append))
    assert texts == ["Hel", "lo", "Let me see."]
    assert (first.text, first.tool_calls, first.stop_reason) == ("Hello", (), "stop")
    assert (second.text, second.tool_calls, second.stop_reason) == (
        "Let me see.",
        (CALL,),
        "toolUse",
    )


async def test_a_call_beyond_the_script_says_so() -> None:
    model = ScriptedModel([["once"]])
    await model.complete(request(), ReplyListener())
    with pytest.raises(ModelRequestError, match="no further reply"):
        await model.complete(request(), ReplyListener())


async def test_a_failure_comes_after_what_was_said_before() -> None:
    texts: list[str] = []
    with pytest.raises(ModelOverloadedError):
        await ScriptedModel([["half", ModelOverloadedError("busy")]]).complete(
            request(), ReplyListener(texts.append)
        )
    assert texts == ["half"]


async def test_a_gate_holds_the_reply_exactly_there() -> None:
    gate = ReplyGate()
    texts: list[str] = []
    model = ScriptedModel([["before", gate, "after"]])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(model.complete, request(), ReplyListener(texts.append))
            await gate.reached.wait()
            assert texts == ["before"]
            gate.open()
    assert texts == ["before", "after"]


async def test_requests_are_kept_as_they_were() -> None:
    model = ScriptedModel(echo)
    payload = request("first")
    await model.complete(payload, ReplyListener())
    payload.history.append(user("second", 2))
    assert [request.last for request in model.requests] == ["first"]
    assert len(model.requests[0].messages) == 1
    assert model.requests[0].request.system == "system"


async def test_echo_depends_on_the_last_message_alone() -> None:
    model = ScriptedModel(echo)

    async def ask(asked: ModelRequest) -> ModelReply:
        return await model.complete(asked, ReplyListener())

    assert (await ask(request("hello"))).text == "echo: hello"
    called = await ask(request('call read {"path":"a"}'))
    assert [(call.name, call.arguments) for call in called.tool_calls] == [("read", {"path": "a"})]
    answered = request("x")
    answered.history.append(
        ToolResultMessage("c", "read", (TextBlock("content"),), is_error=False, timestamp=1)
    )
    assert (await ask(answered)).text == "result: content"


async def test_models_give_the_one_model_and_keep_what_was_asked_for() -> None:
    model = ScriptedModel(echo)
    models = ScriptedModels(model)
    assert await models.choose("any/one") == (model, MODEL)
    assert await models.listing() == [MODEL]
    assert (await models.status()).state is ModelState.READY
    assert models.chosen == ["any/one"]


async def test_models_without_a_provider_have_none() -> None:
    models = ScriptedModels(None)
    with pytest.raises(ModelUnavailableError):
        await models.choose(None)
    assert await models.listing() == []
    assert (await models.status()).state is ModelState.UNAVAILABLE
