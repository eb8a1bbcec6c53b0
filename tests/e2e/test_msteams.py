"""MS Teams through a whole gateway: conversations, forged requests, and kills."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.teams_server import TeamsServer
from skerry.testing.token_issuer import signing_key, token

LOST = "may not have reached you"


def everybody(server: TeamsServer) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"msteams": {**server.settings, **access}}}


def connect(server: TeamsServer, gateway: GatewayProcess) -> None:
    server.poster.url = f"{gateway.url}/channels/msteams/default"


async def test_a_conversation_runs_and_a_forged_request_starts_nothing(tmp_path: Path) -> None:
    async with TeamsServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            connect(server, gateway)
            event = msgspec.json.encode(server.activity(text="forged"))
            forged = {"authorization": f"Bearer {token({}, key=signing_key('stranger'))}"}
            async with httpx2.AsyncClient(timeout=60) as client:
                answer = await client.post(server.poster.url, content=event, headers=forged)
            assert answer.status_code == 401
            server.say("hello **you**")
            assert await server.wait_for(1) == ["echo: hello you"]
            assert "<b>you</b>" in server.messages[0].body["text"]
            assert await gateway.stop() == 0
        assert (server.faults, server.poster.waiting) == ([], [])


@pytest.mark.parametrize(
    "point",
    ["store.after-commit:2", "dispatch.accepted", "delivery.before-send", "delivery.after-send"],
)
async def test_a_kill_at_any_point_loses_no_message_and_repeats_no_answer(
    tmp_path: Path, point: str
) -> None:
    async with TeamsServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            connect(server, gateway)
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                with suppress(AssertionError):  # it was killed before it was ready
                    await gateway.start("--fault", point)
                    await gateway.wait()
            await gateway.start()
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            await gateway.stop()
        # A bot cannot read what it sent, so the person is told that a part may be missing.
        told = any(LOST in text for text in server.texts())
        answers = [text for text in server.texts() if text.startswith("echo: ")]
        is_lost = point == "delivery.before-send"
        assert answers == (["echo: again"] if is_lost else ["echo: hello", "echo: again"])
        assert told == point.startswith("delivery")
        assert (server.faults, server.poster.waiting) == ([], [])
