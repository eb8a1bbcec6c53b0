"""`skerry agent` as a process, against a scripted gateway."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest

from tests.support.fake_gateway import Exchange, FakeGateway

from .conftest import Command

RESULT = {"payloads": [{"text": "Hello\x1b[2J"}, {"text": "again"}], "meta": {"aborted": False}}


async def answers(exchange: Exchange) -> None:
    await exchange.reply({"status": "accepted", "sessionKey": "agent:main:main"})
    await exchange.reply({"status": "ok", "result": RESULT})


@pytest.mark.requirement("agent-entry-points")
async def test_it_prints_the_reply_of_one_run(gateway: FakeGateway, command: Command) -> None:
    gateway.methods["agent"] = answers
    completed = await command("agent", "--message", "hi", "--session", "work", "--timeout", "1.5")
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert completed.stdout == b"Hello[2J\n\nagain\n"
    ((_, params),) = gateway.requests
    assert (params["message"], params["sessionKey"], params["timeout"]) == ("hi", "work", 2)
    assert params["idempotencyKey"]


async def test_a_lost_connection_names_the_key_by_which_nothing_runs_twice(
    gateway: FakeGateway, command: Command
) -> None:
    async def dies(exchange: Exchange) -> None:
        await exchange.reply({"status": "accepted"})
        await exchange.socket.close(1012)

    gateway.methods["agent"] = dies
    completed = await command("agent", "--message", "hi")
    ((_, params),) = gateway.requests
    text = f"--idempotency-key {params['idempotencyKey']}: the message runs once."
    assert (completed.returncode, text in completed.stderr.decode()) == (1, True)


async def test_json_is_the_last_response_as_it_came(gateway: FakeGateway, command: Command) -> None:
    gateway.methods["agent"] = answers
    completed = await command("agent", "--message", "hi", "--json", "--idempotency-key", "k1")
    assert json.loads(completed.stdout) == {"status": "ok", "result": RESULT}
    assert gateway.requests[0][1]["idempotencyKey"] == "k1"


async def test_the_agent_the_thinking_and_images_go_with_the_message(
    gateway: FakeGateway, command: Command, tmp_path: Path
) -> None:
    gateway.methods["agent"] = answers
    (tmp_path / "a.png").write_bytes(b"image")
    given = ("--agent", "work", "--thinking", "high", "--image", str(tmp_path / "a.png"))
    assert (await command("agent", "--message", "hi", *given)).returncode == 0
    params = gateway.requests[0][1]
    assert (params["agentId"], params["thinking"]) == ("work", "high")
    assert params["attachments"] == [{"type": "image", "fileName": "a.png", "content": "aW1hZ2U="}]


async def test_an_image_that_is_not_there_is_named(command: Command) -> None:
    completed = await command("agent", "--message", "hi", "--image", "nowhere.png")
    assert (completed.returncode, completed.stdout) == (1, b"")
    assert b"nowhere.png: No such file" in completed.stderr


async def test_the_message_may_come_from_stdin(gateway: FakeGateway, command: Command) -> None:
    gateway.methods["agent"] = answers
    await command("agent", "--message", "-", stdin="grüße\n".encode())
    assert gateway.requests[0][1]["message"] == "grüße\n"


async def test_a_key_that_runs_already_is_awaited_and_gives_its_result(
    gateway: FakeGateway, command: Command
) -> None:
    replies = [{"status": "in_flight"}, {"status": "ok", "result": RESULT}]

    async def agent(exchange: Exchange) -> None:
        await exchange.reply(replies.pop(0))

    gateway.methods["agent"] = agent
    gateway.answer("agent.wait", {"status": "ok"})
    completed = await command("agent", "--message", "hi", "--idempotency-key", "k")
    assert completed.returncode == 0
    assert [method for method, _ in gateway.requests] == ["agent", "agent.wait", "agent"]


@pytest.mark.parametrize(
    ("meta", "code"), [({"stopReason": "error"}, 1), ({"stopReason": "timeout"}, 124)]
)
async def test_a_run_that_failed_prints_what_there_is_and_exits_by_its_reason(
    gateway: FakeGateway, command: Command, meta: dict[str, str], code: int
) -> None:
    result = {"payloads": [{"text": "half"}], "meta": meta}

    async def fails(exchange: Exchange) -> None:
        await exchange.reply({"status": "accepted"})
        payload = {"status": "error", "summary": "it broke", "result": result}
        await exchange.refuse("UNAVAILABLE", "it broke", {"code": "model"}, payload)

    gateway.methods["agent"] = fails
    completed = await command("agent", "--message", "hi")
    assert (completed.returncode, completed.stdout) == (code, b"half\n")
    assert completed.stderr.startswith(b"Reason: The run ended early: it broke\n")


async def test_a_used_up_budget_names_where_it_went(gateway: FakeGateway, command: Command) -> None:
    async def fails(exchange: Exchange) -> None:
        payload = {"status": "error", "result": {"payloads": [], "meta": {}}}
        await exchange.refuse("UNAVAILABLE", "used up", {"code": "usage.budget"}, payload)

    gateway.methods["agent"] = fails
    completed = await command("agent", "--message", "hi")
    assert b"Try: `skerry usage` shows where it went" in completed.stderr


async def test_an_aborted_run_is_no_success(gateway: FakeGateway, command: Command) -> None:
    async def aborted(exchange: Exchange) -> None:
        result = {"payloads": [], "meta": {"aborted": True}}
        await exchange.reply({"status": "ok", "summary": "aborted", "result": result})

    gateway.methods["agent"] = aborted
    assert (await command("agent", "--message", "hi")).returncode == 1


async def test_ctrl_c_aborts_the_run_and_exits_with_130(
    gateway: FakeGateway, environ: dict[str, str]
) -> None:
    began, aborted = anyio.Event(), anyio.Event()

    async def never_ends(exchange: Exchange) -> None:
        await exchange.reply({"status": "accepted", "sessionKey": "agent:main:main"})
        began.set()

    async def abort(exchange: Exchange) -> None:
        aborted.set()
        await exchange.reply({"ok": True, "aborted": True})

    gateway.methods |= {"agent": never_ends, "chat.abort": abort}
    arguments = ["agent", "--message", "hi", "--idempotency-key", "k"]
    with anyio.fail_after(60):
        async with await anyio.open_process(
            [sys.executable, "-m", "skerry", *arguments], env=environ
        ) as process:
            await began.wait()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
    assert aborted.is_set()
    assert gateway.requests[-1] == ("chat.abort", {"sessionKey": "main", "runId": "k"})


async def test_retry_prints_the_answer_of_the_run_that_it_begins(
    gateway: FakeGateway, command: Command
) -> None:
    gateway.answer("chat.retry", {"runId": "m1:retry", "status": "started"})
    waits = iter(({"status": "timeout"}, {"status": "ok", "stopReason": "stop"}))

    async def wait(exchange: Exchange) -> None:
        assert exchange.params["runId"] == "m1:retry"
        await exchange.reply({**next(waits), "terminalReply": {"text": "the sea"}})

    gateway.methods["agent.wait"] = wait
    completed = await command("agent", "--message", "/retry", "--session", "work")
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"the sea\n", b"")

    async def nothing(exchange: Exchange) -> None:
        await exchange.refuse("INVALID_REQUEST", "Nothing.", {"code": "NOTHING_TO_RETRY"})

    gateway.methods["chat.retry"] = nothing
    completed = await command("agent", "--message", "/retry")
    assert (completed.returncode, completed.stdout) == (0, b"Nothing.\n")
