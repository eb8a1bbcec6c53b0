"""Google Chat through a whole gateway: conversations, forged requests, and kills that settle."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.google_server import PROJECT, SENDER, GoogleServer
from skerry.testing.token_issuer import signing_key, token


def everybody(server: GoogleServer, home: Path) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"googlechat": {**server.settings(home), **access}}}


def connect(server: GoogleServer, gateway: GatewayProcess) -> None:
    server.poster.url = f"{gateway.url}/channels/googlechat/default"


async def test_a_conversation_runs_and_a_forged_request_starts_nothing(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        configuration = everybody(server, tmp_path)
        async with running_gateway(home=tmp_path / "state", config=configuration) as gateway:
            connect(server, gateway)
            claims = {"iss": SENDER, "aud": PROJECT}
            forged = token(claims, "google", key=signing_key("stranger"))
            async with httpx2.AsyncClient(timeout=60) as client:
                answer = await client.post(
                    server.poster.url,
                    content=msgspec.json.encode(server.event("forged")),
                    headers={"authorization": f"Bearer {forged}"},
                )
            assert answer.status_code == 401
            server.say("hello **you**")
            assert await server.wait_for(1) == ["echo: hello *you*"]
            assert await gateway.stop() == 0
        assert (server.faults, server.poster.waiting) == ([], [])


@pytest.mark.parametrize(
    "point",
    ["store.after-commit:1", "dispatch.accepted", "delivery.before-send", "delivery.after-send"],
)
async def test_a_kill_at_any_point_leaves_one_answer(tmp_path: Path, point: str) -> None:
    async with GoogleServer() as server:
        configuration = everybody(server, tmp_path)
        async with running_gateway(home=tmp_path / "state", config=configuration) as gateway:
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
        assert server.texts() == ["echo: hello", "echo: again"]
        assert (server.faults, server.poster.waiting) == ([], [])
