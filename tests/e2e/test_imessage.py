"""iMessage through a whole gateway: conversations over a stop, and kills that the Mac settles."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.bluebubbles_server import PASSWORD, BlueBubblesServer
from skerry.testing.gateway import GatewayProcess, running_gateway

SECRET = "a-secret-of-ours"  # noqa: S105 - of no gateway


def everybody(server: BlueBubblesServer) -> dict[str, Any]:
    account = {"password": PASSWORD, "apiRoot": server.root, "pollSeconds": 0.2}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"imessage": {**account, **access, "webhookSecret": SECRET}}}


async def connected(gateway: GatewayProcess) -> None:
    """Waits until the account is connected: earlier messages are not answered."""
    async with GatewayClient(gateway.address) as client:
        with anyio.fail_after(60):
            while True:
                rows = (await client.request("channels.status", {}))["channelAccounts"]
                if rows["imessage"][0]["connected"]:
                    return


async def test_a_conversation_runs_over_a_stop(tmp_path: Path) -> None:
    async with BlueBubblesServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            server.poster.url = f"{gateway.url}/channels/imessage/default/{SECRET}"
            await connected(gateway)
            server.say("hello")
            with anyio.fail_after(60):
                await server.wait_for(1)
                while 200 not in server.poster.answers:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            assert server.texts == ["echo: hello"]
            assert set(server.typed) <= {"iMessage;-;+491701"}
            assert await gateway.stop() == 0
            server.say("while it was away")
            await gateway.start()
            with anyio.fail_after(60):
                while "echo: while it was away" not in server.texts:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            assert len(server.texts) == len(set(server.texts))
        assert server.faults == []


@pytest.mark.parametrize(
    "point", ["store.before-commit:1", "dispatch.accepted", "delivery.after-send"]
)
async def test_a_kill_leaves_one_answer(tmp_path: Path, point: str) -> None:
    async with BlueBubblesServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await connected(gateway)
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                try:
                    await gateway.start("--fault", point)
                    await gateway.wait()
                except AssertionError:
                    pass  # it was killed before it was ready
            await gateway.start()
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in server.texts:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            await gateway.stop()
        assert server.texts == ["echo: hello", "echo: again"]
        assert server.faults == []
