"""Hooks receive each command once, whatever its source."""

from pathlib import Path

import anyio

from skerry.client.client import GatewayClient
from skerry.hooks.events import CommandGiven
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.model.ids import RunId
from tests.support.whole import whole_gateway

SCOPES = ("operator.admin",)


async def test_a_message_and_a_method_are_told_alike(tmp_path: Path) -> None:
    hooks, told, enough = Hooks(), list[tuple[str, str]](), anyio.Event()

    async def note(command_given: CommandGiven) -> None:
        told.append((command_given.name, command_given.session_key))
        if len(told) == 6:
            enough.set()

    hooks.command.add(Handler("test", note))
    async with (
        whole_gateway(tmp_path / "home", hooks) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        send = {"sessionKey": "main", "message": "/help", "idempotencyKey": "1"}
        await client.request("chat.send", send)
        await application.dispatch.wait(RunId("1"), 60)
        await client.request("sessions.reset", {"key": "main", "reason": "new"})
        await client.request("sessions.reset", {"key": "main"})
        await client.request("chat.abort", {"sessionKey": "main"})
        send = {"sessionKey": "main", "message": "/new with words", "idempotencyKey": "2"}
        await client.request("chat.send", send)
        await application.dispatch.wait(RunId("2"), 60)
        send = {"sessionKey": "main", "message": "/reset", "idempotencyKey": "3"}
        await client.request("chat.send", send)
        with anyio.fail_after(60):
            await enough.wait()
    main = "agent:main:main"
    given = ["help", "new", "reset", "stop", "new", "reset"]
    assert told == [(name, main) for name in given]
