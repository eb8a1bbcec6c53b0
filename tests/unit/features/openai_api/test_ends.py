"""Ends of requests: failures, disconnects, and repeated requests with a key."""

import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.features.openai_api import answer
from skerry.gateway.server import create_app
from skerry.model.errors import ModelOverloadedError
from skerry.model.message import AssistantMessage
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from tests.support.api_client import AUTH, ApiClient, chat_body, serving_api, streamed
from tests.support.gateway import serving


async def test_a_failed_run_is_an_error_that_clients_do_not_repeat(tmp_path: Path) -> None:
    failing: list[Step] = ["a", ModelOverloadedError("busy")]
    model = ScriptedModel([failing] * 20)
    async with serving_api(tmp_path / "h", model) as api:
        response = await api(chat_body("hi"))
        assert response.status_code == 502
        assert response.headers["x-should-retry"] == "false"
        assert "busy" in response.json()["error"]["message"]


async def test_a_stream_that_fails_before_its_text_has_a_status(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h", ScriptedModel([])) as api:
        response = await api(chat_body("hi", stream=True))
        assert response.status_code == 502
        assert response.json()["error"]["type"] == "server_error"


async def test_a_stream_that_fails_later_ends_with_the_error(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["begun", gate]])
    async with serving_api(tmp_path / "h", model) as api:
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await api.send_raw(stream, chat_body("hi", stream=True, user="ada"))
            received = b""
            with anyio.fail_after(60):
                while b"begun" not in received:
                    received += await stream.receive()
                context = api.application.context
                key = context.config().session_key("openai-user:ada", None)
                assert context.dispatcher.abort(key, None, "Ada")
                while b'"error"' not in received:
                    received += await stream.receive()
        assert b"stopped by Ada" in received
        assert b"[DONE]" not in received


async def begun(api: ApiClient, gate: ReplyGate, body: Any, *lines: str) -> None:
    """Sends a request, waits until the model answers, and disconnects."""
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await api.send_raw(stream, body, *lines)
            await gate.reached.wait()


@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_disconnects_stops_its_run(tmp_path: Path, *, streams: bool) -> None:
    gate = ReplyGate()
    async with serving_api(tmp_path / "h", ScriptedModel([["part", gate, "rest"]])) as api:
        await begun(api, gate, chat_body("hi", stream=streams, user="ada"))
        await api.until_idle()
        entries = await api.transcript("agent:main:openai-user:ada")
        last = entries[-1]
        assert isinstance(last, AssistantMessage)
        assert (last.text, last.stop_reason) == ("part", "aborted")


async def test_with_a_key_the_run_goes_on_and_a_repeat_gets_its_answer(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["part", gate, " rest"]])
    home, keyed = tmp_path / "h", {**AUTH, "idempotency-key": "k-1"}
    async with serving_api(home, model, {"maxOpenRequests": 1}) as api:
        await begun(api, gate, chat_body("hi"), "Idempotency-Key: k-1")
        with anyio.fail_after(60):
            while (await api({})).status_code == 429:
                pass  # the gateway has not noticed the disconnect
        results: list[Any] = []

        async def repeat() -> None:
            results.append(await api(chat_body("hi"), keyed))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(repeat)
                await anyio.lowlevel.checkpoint()
                gate.open()
        assert results[0].json()["choices"][0]["message"]["content"] == "part rest"
        again = await api(chat_body("hi"), keyed)
        assert again.json() == {**results[0].json(), "created": again.json()["created"]}
        assert again.headers["x-skerry-repeated"] == "true"
        assert len(model.requests) == 1
        for other in (chat_body("else"), chat_body("hi", temperature=1), chat_body("a", "b", "hi")):
            refused = await api(other, keyed)
            assert refused.status_code == 422
            assert refused.json()["error"]["code"] == "request.key_reused"
    async with serving_api(home, model) as api:
        later = await api(chat_body("hi"), keyed)
        assert later.json()["choices"][0]["message"]["content"] == "part rest"
        assert len(model.requests) == 1
        entries = await api.transcript(later.headers["x-skerry-session-key"])
        assert [entry.text for entry in entries] == ["hi", "part rest"]


async def test_a_repeat_of_a_request_with_earlier_messages_adds_them_once(tmp_path: Path) -> None:
    keyed = {**AUTH, "idempotency-key": "k-2"}
    async with serving_api(tmp_path / "h") as api:
        first, second = [await api(chat_body("a", "b", "c", stream=True), keyed) for _ in range(2)]
        assert streamed(first.text) == streamed(second.text) == "echo: c"
        entries = await api.transcript(second.headers["x-skerry-session-key"])
        assert [entry.text for entry in entries] == ["a", "b", "c", "echo: c"]


async def test_a_client_that_reads_nothing_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(answer, "QUIET_SECONDS", 0.1)
    gate = ReplyGate()
    model = ScriptedModel([["x" * 1_000_000, gate]])
    async with serving_api(tmp_path / "h", model) as api:
        app = create_app(api.application.context)
        async with serving(app, send_buffer=4_096) as api.port:
            with anyio.fail_after(60), socket.socket() as client:
                # No stream of asyncio, which would read by itself.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                client.connect(("127.0.0.1", api.port))
                body = chat_body("hi", stream=True, user="ada")
                client.sendall(api.raw(body))
                await gate.reached.wait()
                await api.until_idle()
        last = (await api.transcript("agent:main:openai-user:ada"))[-1]
        assert isinstance(last, AssistantMessage)
        assert last.stop_reason == "aborted"
