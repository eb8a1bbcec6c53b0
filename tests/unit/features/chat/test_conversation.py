"""A conversation through a gateway that goes and comes back."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest

from skerry.client.discover import GatewayAddress
from skerry.features.chat.conversation import (
    CUT,
    ClientConversation,
    ConnectionChange,
    Ending,
    JoinedRun,
    RunAnswer,
    Text,
    Update,
    Withdrawn,
)
from skerry.model.errors import ClientError
from tests.support.fake_gateway import TOKEN, Exchange, FakeGateway, fake_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with fake_gateway() as gateway:
        yield gateway


@pytest.fixture
def updates() -> list[Update]:
    return []


@pytest.fixture
async def conversation(
    gateway: FakeGateway, updates: list[Update]
) -> AsyncIterator[ClientConversation]:
    with anyio.fail_after(60):
        async with ClientConversation(
            GatewayAddress(gateway.url, TOKEN), "main", updates.append
        ) as conversation:
            yield conversation


async def test_the_text_of_an_answer_is_told_as_it_grows(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.event("chat", runId="another", state="delta", message={"content": "no"})
        await exchange.event("tick")
        await exchange.chat("status", phase="starting_model")
        await exchange.chat("delta", "one ")
        await exchange.chat("delta", "one two")
        await exchange.chat("final", "one two three")

    gateway.methods["chat.send"] = send
    assert await conversation.say("hi", "k") == Ending("final")
    assert updates == [Text("one "), Text("two"), Text(" three")]
    assert gateway.requests[-1][1] == {
        "sessionKey": "main",
        "message": "hi",
        "idempotencyKey": "k",
    }


async def test_the_agent_the_thinking_and_images_go_with_a_message(gateway: FakeGateway) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.chat("final", "done")

    gateway.methods["chat.send"] = send
    image = {"type": "image", "content": "aW1hZ2U="}
    address = GatewayAddress(gateway.url, TOKEN)
    with anyio.fail_after(60):
        async with ClientConversation(
            address, "main", lambda _: None, "work", "high"
        ) as conversation:
            await conversation.say("hi", "k", [image])
    params = gateway.requests[-1][1]
    assert (params["agentId"], params["thinking"]) == ("work", "high")
    assert params["attachments"] == [image]


async def test_text_that_was_withdrawn_is_not_followed_by_the_new_one(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.chat("delta", "kept\n\nwrong")
        await exchange.chat("delta", "kept", replace=True, deltaText="kept")
        await exchange.chat("delta", "kept\n\nright")
        await exchange.chat("final", "kept\n\nright")

    gateway.methods["chat.send"] = send
    assert await conversation.say("hi", "k") == Ending("final")
    assert updates == [Text("kept\n\nwrong"), Withdrawn(), Text("\n\nright"), Text("")]


@pytest.mark.parametrize("end", ["final", "error"])
async def test_a_message_that_entered_another_run_has_its_answer_from_then_on(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update], end: str
) -> None:
    def of(text: str) -> dict[str, object]:
        return {"runId": "host", "message": {"role": "assistant", "content": text}}

    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.event("chat", state="delta", **of("to somebody else"))
        about = {"phase": "start", "joined": "host"}
        await exchange.event("agent", runId="k", stream="lifecycle", data=about)
        await exchange.event("chat", state="delta", **of("to somebody else, to you"))
        data = {"phase": "end", "notices": ["It thinks less."]}
        await exchange.event("agent", runId="host", stream="lifecycle", data=data)
        why = {"errorMessage": "why"} if end == "error" else {}
        await exchange.event("chat", state=end, **why, **of("to somebody else, to you"))

    gateway.methods["chat.send"] = send
    ending = await conversation.say("hi", "k")
    message = "why" if end == "error" else ""
    assert ending == Ending(end, message, ("It thinks less.",))
    assert updates == [JoinedRun("host"), Text(", to you"), Text("")]


async def test_an_answer_that_another_message_had_meanwhile_is_taken_from_the_history(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "in_flight"})
        about = {"phase": "end", "joined": "host"}
        await exchange.event("agent", runId="k", stream="lifecycle", data=about)
        await exchange.chat("final", "")

    gateway.methods["chat.send"] = send
    gateway.answer("agent.wait", {"status": "ok"})
    gateway.answer("chat.history", {"messages": [{"role": "assistant", "content": "done"}]})
    assert await conversation.say("hi", "k") == Ending("final")
    assert updates == [JoinedRun("host"), Text("done")]


async def test_collected_messages_are_shown_one_by_one(
    gateway: FakeGateway, conversation: ClientConversation
) -> None:
    said = {"said": [{"text": "one"}, {"text": "two"}]}
    both = {"role": "user", "content": "[Queued messages ...]", "__openclaw": said}
    gateway.answer("chat.history", {"messages": [both]})
    gateway.answer("models.status", {"state": "ready"})
    opening = await conversation.open()
    assert opening.messages == (("user", "one"), ("user", "two"))


async def test_an_error_ends_the_answer_with_its_message(
    gateway: FakeGateway, conversation: ClientConversation
) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.chat("error", errorMessage="no model")

    gateway.methods["chat.send"] = send
    assert await conversation.say("hi", "k") == Ending("error", "no model")


async def test_a_lost_connection_neither_loses_nor_doubles_the_answer(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    async def first(exchange: Exchange) -> None:
        gateway.methods["chat.send"] = second
        await exchange.reply({"status": "started"})
        await exchange.chat("delta", "one ")
        await exchange.socket.close(1012)

    async def second(exchange: Exchange) -> None:
        await exchange.reply({"status": "in_flight"})
        await exchange.chat("delta", "one two ")
        await exchange.chat("final", "one two three")

    gateway.methods["chat.send"] = first
    assert await conversation.say("hi", "k") == Ending("final")
    assert [one for one in updates if isinstance(one, Text)] == [
        Text("one "),
        Text("two "),
        Text("three"),
    ]
    assert [one for one in updates if isinstance(one, ConnectionChange)] == [
        ConnectionChange("connection lost"),
        ConnectionChange(),
    ]
    keys = [params["idempotencyKey"] for method, params in gateway.requests if "send" in method]
    assert keys == ["k", "k"]


@pytest.mark.parametrize(
    ("texts", "told_after"),
    [
        (["It", "It was noon."], [Withdrawn(CUT), Text("It was noon.")]),
        (["Noon", "Noon it was."], [Withdrawn(CUT), Text("Noon"), Text(" it was.")]),
        (["It", "It was dark", "It was dark."], [Text("k"), Text(".")]),
        (["It was"], [Withdrawn(CUT), Text("It was")]),
    ],
)
async def test_an_answer_that_a_dead_gateway_cut_is_not_shown_as_two_halves(
    gateway: FakeGateway,
    conversation: ClientConversation,
    updates: list[Update],
    texts: list[str],
    told_after: list[Update],
) -> None:
    async def first(exchange: Exchange) -> None:
        gateway.methods["chat.send"] = second
        await exchange.reply({"status": "started"})
        await exchange.chat("delta", "It was dar")
        await exchange.socket.close(1012)

    async def second(exchange: Exchange) -> None:
        await exchange.reply({"status": "in_flight"})
        for text in texts[:-1]:
            await exchange.chat("delta", text)
        await exchange.chat("final", texts[-1])

    gateway.methods["chat.send"] = first
    assert await conversation.say("hi", "k") == Ending("final")
    shown = [one for one in updates if one != Text("") and not isinstance(one, ConnectionChange)]
    assert shown == [Text("It was dar"), *told_after]


@pytest.mark.parametrize(
    ("waited", "ending"),
    [
        ({"status": "ok"}, Ending("final")),
        ({"status": "error", "error": "it broke"}, Ending("error", "it broke")),
    ],
)
async def test_an_answer_that_ended_meanwhile_is_taken_from_the_history(
    gateway: FakeGateway,
    conversation: ClientConversation,
    updates: list[Update],
    waited: dict[str, str],
    ending: Ending,
) -> None:
    gateway.answer("chat.send", {"status": "ok"})
    gateway.answer("agent.wait", waited)
    gateway.answer("chat.history", {"messages": [{"role": "assistant", "content": "done"}]})
    assert await conversation.say("hi", "k") == ending
    assert updates == ([Text("done")] if ending.state == "final" else [])


async def test_stopping_aborts_the_run(
    gateway: FakeGateway, conversation: ClientConversation
) -> None:
    running: list[Exchange] = []
    begun = anyio.Event()

    async def send(exchange: Exchange) -> None:
        running.append(exchange)
        await exchange.reply({"status": "started"})
        await exchange.chat("delta", "half")
        begun.set()

    async def abort(exchange: Exchange) -> None:
        await exchange.reply({"aborted": True})
        await running[0].chat("aborted", "half")

    gateway.methods |= {"chat.send": send, "chat.abort": abort}
    endings: list[Ending] = []

    async def say() -> None:
        endings.append(await conversation.say("hi", "k"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say)
        await begun.wait()
        await conversation.stop("k")
    assert endings == [Ending("aborted")]


async def test_stopping_while_nobody_answers_gives_up_the_wait() -> None:
    lost = anyio.Event()
    endings: list[Ending] = []
    with anyio.fail_after(60):
        async with AsyncExitStack() as gone:
            gateway = await gone.enter_async_context(fake_gateway())
            address = GatewayAddress(gateway.url, TOKEN)
            async with ClientConversation(address, "main", lambda _: lost.set()) as conversation:
                await conversation.open()
                await gone.aclose()
                await lost.wait()

                async def say() -> None:
                    endings.append(await conversation.say("hi", "k"))

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(say)
                    await anyio.wait_all_tasks_blocked()
                    await conversation.stop("k")
    assert [ending.state for ending in endings] == ["aborted"]


async def test_a_refused_client_receives_the_reason_at_once() -> None:
    async with fake_gateway() as gateway:
        with anyio.fail_after(60), pytest.raises(ClientError, match="unauthorized"):
            async with ClientConversation(
                GatewayAddress(gateway.url, "no"), "main", print
            ) as conversation:
                await conversation.open()


async def test_what_a_person_sees_first_is_the_model_and_the_last_messages(
    gateway: FakeGateway, conversation: ClientConversation
) -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "toolResult", "content": "x"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]
    gateway.answer("chat.history", {"messages": messages})
    opening = await conversation.open()
    assert opening.model.model is not None
    assert opening.model.model.ref == "scripted/tiny"
    assert opening.messages == (("user", "hi"), ("assistant", "hello"))


async def test_the_commands_of_the_gateway_can_be_completed(
    conversation: ClientConversation,
) -> None:
    assert (await conversation.open()).commands == ("/status",)


def test_a_new_message_begins_a_paragraph_and_a_repeated_one_is_not_shown_again() -> None:
    answer = RunAnswer()
    grown = [answer.grow(text) for text in ("a", "ab", "c", "cd", "d")]
    assert grown == ["a", "b", "\n\nc", "d", ""]


async def test_the_answer_to_retry_is_that_of_the_run_which_it_begins(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    said = {"role": "assistant", "content": [{"type": "text", "text": "the sea"}]}

    async def retry(exchange: Exchange) -> None:
        await exchange.reply({"runId": "m1:retry", "status": "started"})
        if len(gateway.sockets) == 1:
            await exchange.socket.close()
            return
        await exchange.event("chat", runId="m1:retry", state="final", message=said)

    gateway.methods["chat.retry"] = retry

    async def wait(exchange: Exchange) -> None:
        assert exchange.params["runId"] == "m1:retry"
        await exchange.reply({"status": "timeout"})
        await exchange.event("chat", runId="m1:retry", state="final", message=said)

    gateway.methods["agent.wait"] = wait
    assert await conversation.say("/retry", "k") == Ending("final")
    assert [one for one in updates if isinstance(one, Text)] == [Text("the sea")]
    assert [method for method, _ in gateway.requests].count("chat.retry") == 1


async def test_where_nothing_is_to_run_again_retry_says_so_and_the_chat_goes_on(
    gateway: FakeGateway, conversation: ClientConversation, updates: list[Update]
) -> None:
    async def retry(exchange: Exchange) -> None:
        await exchange.refuse("INVALID_REQUEST", "Nothing.", {"code": "NOTHING_TO_RETRY"})

    gateway.methods["chat.retry"] = retry
    assert await conversation.say("/retry", "k") == Ending("final")
    assert updates == [Text("Nothing.")]
