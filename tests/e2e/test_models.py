"""Thinking and images through the whole gateway, a model API at its end."""

import base64
import os
from pathlib import Path
from typing import Any

import anyio

from skerry.client.client import GatewayClient
from skerry.features.doctor.examine import examine
from skerry.model.message import ThinkingBlock, ToolCall
from skerry.ports.checks import Level
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StatusReply, StubModelServer
from tests.support.cli import run_command

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n pixels").decode()


def configured(base_url: str) -> dict[str, Any]:
    model = {"id": "stub", "reasoning": True, "input": ["text", "image"]}
    provider = {"baseUrl": base_url, "apiKey": "test", "models": [model]}
    defaults = {"model": {"primary": "test/stub"}, "thinkingDefault": "high"}
    return {"models": {"providers": {"test": provider}}, "agents": {"defaults": defaults}}


async def test_an_image_reaches_the_model_and_its_thinking_the_person(tmp_path: Path) -> None:
    sent = {
        "sessionKey": "main",
        "message": "what is it?",
        "idempotencyKey": "k",
        "attachments": [{"type": "image", "mimeType": "image/png", "content": PNG}],
    }
    async with StubModelServer([[ThinkingBlock("I look."), "A cat."]]) as model:
        config = configured(model.base_url)
        arguments = ["--model", "configured"]
        async with (
            running_gateway(home=tmp_path, config=config, arguments=arguments) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            await client.request("chat.send", sent)
            with anyio.fail_after(60):
                await client.request("agent.wait", {"runId": "k", "timeoutMs": 60_000}, timeout=90)
            history = await client.request("chat.history", {"sessionKey": "main"})
        body = model.requests[0].body
    assert body["reasoning_effort"] == "high"
    url = f"data:image/png;base64,{PNG}"
    assert body["messages"][-1]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    said, answered = history["messages"]
    assert said["content"][1] == {"type": "image", "data": PNG, "mimeType": "image/png"}
    thought = {"type": "thinking", "thinking": "I look.", "thinkingSignature": "reasoning_content"}
    assert answered["content"] == [thought, {"type": "text", "text": "A cat."}]


async def test_signed_thinking_goes_back_within_the_tool_loop(tmp_path: Path) -> None:
    thought, call = ThinkingBlock("I look.", "c2ln"), ToolCall("t1", "read", {"path": "a"})
    async with StubModelServer([[thought, call], ["It is empty."]]) as model:
        config = configured(model.base_url)
        config["models"]["providers"]["test"]["api"] = "anthropic-messages"
        arguments = ["--model", "configured"]
        async with (
            running_gateway(home=tmp_path, config=config, arguments=arguments) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            sent = {"sessionKey": "main", "message": "look", "idempotencyKey": "k"}
            final = await client.request("agent", sent, expect_final=True)
        first, second = (request.body for request in model.requests)
    assert final["result"]["payloads"][0]["text"] == "It is empty."
    assert first["thinking"] == {"type": "enabled", "budget_tokens": 7168}
    signed = {"type": "thinking", "thinking": "I look.", "signature": "c2ln"}
    assert second["messages"][1]["content"][0] == signed
    assert second["messages"][2]["content"][0]["tool_use_id"] == "t1"


async def test_a_refused_key_is_told_with_its_remedy_and_by_status_until_it_works(
    tmp_path: Path,
) -> None:
    replies: Any = iter([[StatusReply(401)], ["It works."]])
    async with (
        StubModelServer(lambda _: next(replies)) as model,
        running_gateway(home=tmp_path, model=model.base_url) as gateway,
        GatewayClient(gateway.address) as client,
    ):
        environ = {**os.environ, "SKERRY_STATE_DIR": str(tmp_path)}
        completed = await run_command("agent", "--message", "hello", environ=environ)
        assert completed.returncode == 1
        assert b"skerry auth add" in completed.stderr
        status = await client.request("models.status")
        assert (status["state"], status["failure"]["code"]) == ("ready", "model.auth")
        (told,) = [check for check in await examine(environ) if check.name == "model"]
        assert (told.level, "its last call failed" in told.message) == (Level.FAILURE, True)
        sent = {"sessionKey": "main", "message": "again", "idempotencyKey": "k"}
        await client.request("agent", sent, expect_final=True)
        assert (await client.request("models.status"))["failure"] is None
