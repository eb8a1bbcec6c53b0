"""The limits of runs and days before a running gateway: said in the chat, by status and doctor."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest

from skerry.cli.gateway import attention
from skerry.features.doctor.gateway_checks import running
from skerry.model.message import ToolCall
from skerry.ports.checks import Level
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import Step
from skerry.testing.model_server import StubModelServer
from tests.support.cli import run_command
from tests.support.wire import Frame, Wire, connected

LIMITS = {"modelCalls": 3, "toolCalls": 3, "tokens": 40, "cost": 0.5}
WHAT = {
    "modelCalls": "3 model calls",
    "toolCalls": "3 tool calls",
    "tokens": "40 tokens",
    "cost": "0.50 US dollars",
}
DOLLARS = {"input": 50_000.0, "output": 50_000.0}
"""Of a million tokens: five cents each."""


def restless(body: dict[str, Any]) -> Sequence[Step]:
    """Calls a tool each time, for ever."""
    return ["on", ToolCall(f"c{len(body['messages'])}", "read", {"path": "none.txt"})]


@asynccontextmanager
async def limited(server: StubModelServer, limits: dict[str, Any]) -> AsyncIterator[GatewayProcess]:
    stub = {"id": "stub", "cost": DOLLARS}
    provider = {"baseUrl": server.base_url, "apiKey": "test", "models": [stub]}
    config = {
        "models": {"providers": {"test": provider}},
        "agents": {"defaults": {"limits": limits, "model": {"primary": "test/stub"}}},
    }
    async with running_gateway(config=config, arguments=["--model", "configured"]) as gateway:
        yield gateway


@asynccontextmanager
async def client(gateway: GatewayProcess) -> AsyncIterator[Wire]:
    async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
        yield wire


def _is_final(frame: Frame) -> bool:
    return frame.get("event") == "chat" and frame["payload"]["state"] == "final"


async def ask(wire: Wire, message: str) -> str:
    wire.frames.clear()
    key = f"{message} {anyio.current_time()}"
    params = {"sessionKey": "main", "idempotencyKey": key, "message": message}
    await wire.call("chat.send", params)
    final = next(filter(_is_final, wire.frames), None)  # a command's may come before the answer
    final = final or await wire.until(_is_final)
    text: str = final["payload"]["message"]["content"][-1]["text"]
    return text


async def skerry(gateway: GatewayProcess, *arguments: str) -> CompletedProcess[bytes]:
    environ = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    port = gateway.url.rpartition(":")[2]
    environ |= {"HOME": str(gateway.home), "SKERRY_STATE_DIR": str(gateway.home)}
    environ |= {"SKERRY_GATEWAY_PORT": port, "SKERRY_GATEWAY_TOKEN": gateway.token}
    return await run_command(*arguments, environ=environ, seconds=120)


def setting(scope: str, name: str) -> str:
    return f"skerry config set agents.defaults.limits.{scope}.{name} {LIMITS[name] * 2}"


@pytest.mark.parametrize("name", LIMITS)
async def test_a_run_at_a_limit_says_it_in_the_chat_and_the_next_message_goes_on(
    name: str,
) -> None:
    async with (
        StubModelServer(restless) as server,
        limited(server, {"run": {name: LIMITS[name]}}) as gateway,
        client(gateway) as wire,
    ):
        text = await ask(wire, "go")
        assert f"this run reached the limit of {WHAT[name]}" in text
        assert "Send a message to go on." in text
        assert setting("run", name) in text
        count = server.count
        assert "this run reached" in await ask(wire, "again"), "each run counts for itself"
        assert count < server.count
        assert limits_line(await wire.call("status")) == "", "the day has enough left"
        assert "a run at most" in (await ask(wire, "/status"))
        assert WHAT[name] in await ask(wire, "/status")


def limits_line(status: dict[str, Any]) -> str:
    """Returns the line of `skerry status` on limits."""
    return "\n".join(text for text, _ in attention(status) if "limits of" in text)


def limit_failures(status: dict[str, Any]) -> list[str]:
    """Returns the failures of `skerry doctor` about limits."""
    return [check.message for check in running(status) if check.level is Level.FAILURE]


@pytest.mark.parametrize("name", LIMITS)
async def test_a_day_at_a_limit_is_told_everywhere_and_survives_a_restart(name: str) -> None:
    async with (
        StubModelServer(restless) as server,
        limited(server, {"day": {name: LIMITS[name]}}) as gateway,
    ):
        async with client(gateway) as wire:
            text = await ask(wire, "go")
            assert f"the agent main today reached the limit of {WHAT[name]}" in text
            assert "It goes on at midnight." in text
            assert setting("day", name) in text
            await everywhere(wire, server, name)
        await gateway.stop()
        await gateway.start()
        async with client(gateway) as wire:
            await everywhere(wire, server, name)


async def everywhere(wire: Wire, server: StubModelServer, name: str) -> None:
    """Asserts that each place says that the day is used up, and that it is."""
    status = await wire.call("status")
    assert f"of {WHAT[name]}" in limits_line(status)
    assert f"of {WHAT[name]}" in "".join(limit_failures(status))
    assert f"of {WHAT[name]}" in await ask(wire, "/status"), "the chat says it when asked"
    count = server.count
    text = await ask(wire, f"again after {count}")
    assert f"today reached the limit of {WHAT[name]}" in text
    calls = 1 if name == "toolCalls" else 0  # a model may still answer, without tools
    assert server.count == count + calls


async def test_the_commands_tell_of_a_day_that_is_used_up_and_raise_it() -> None:
    async with (
        StubModelServer(restless) as server,
        limited(server, {"day": {"modelCalls": 3}}) as gateway,
        client(gateway) as wire,
    ):
        assert setting("day", "modelCalls") in await ask(wire, "go")
        for command, code in (("status", 0), ("doctor", 1), ("usage", 0)):
            completed = await skerry(gateway, command)
            assert b"limits of main today: 3 of 3 model calls" in completed.stdout, command
            assert completed.returncode == code
        count = server.count
        raised = await skerry(gateway, *setting("day", "modelCalls").split()[1:])
        assert raised.returncode == 0
        with anyio.fail_after(60):
            while server.count == count:  # it counts as soon as the gateway has read the file
                await ask(wire, "go on")
