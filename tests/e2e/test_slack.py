"""Slack through a whole gateway: conversations, threads, and kills that the history settles."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.testing.gateway import running_gateway
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer


def everybody(server: SlackServer) -> dict[str, Any]:
    account = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"slack": {**account, **access}}}


async def test_a_conversation_runs(tmp_path: Path) -> None:
    async with SlackServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
            server.say("in a thread", thread_ts="1700000000.000001")
            assert (await server.wait_for(2))[1] == "echo: in a thread"
            assert server.posted[-1].params["thread_ts"] == "1700000000.000001"
            assert await gateway.stop() == 0
        assert (server.faults, server.unacknowledged) == ([], 0)


@pytest.mark.parametrize(
    "point",
    ["store.after-commit:1", "dispatch.accepted", "delivery.before-send", "delivery.after-send"],
)
async def test_a_kill_at_any_point_leaves_one_answer(tmp_path: Path, point: str) -> None:
    async with SlackServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                try:
                    await gateway.start("--fault", point)
                    await gateway.wait()
                except AssertionError:
                    pass  # it was killed before it was ready
            await gateway.start()
            await server.wait_for(1)
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            await gateway.stop()
        assert server.texts() == ["echo: hello", "echo: again"]
        assert (server.faults, server.unacknowledged) == ([], 0)
