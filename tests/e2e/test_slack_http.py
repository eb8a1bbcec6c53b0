"""Slack by the Events API: signatures, the replay window, retries, commands, buttons, and kills."""

import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest

from skerry.infra.clock import SystemClock
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.slack_server import BOT_TOKEN, SlackServer

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # noqa: S105 - of no app
FORM = "application/x-www-form-urlencoded"


class Slack:
    """Sends the requests of Slack to a gateway."""

    def __init__(self, gateway: GatewayProcess, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self._client = client
        self._count = 0

    async def post(
        self, body: bytes, kind: str = "application/json", *, late: float = 0, secret: str = SECRET
    ) -> httpx2.Response:
        stamp = str(int(SystemClock().now_ms() / 1000 - late))
        digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256)
        headers = {
            "content-type": kind,
            "x-slack-request-timestamp": stamp,
            "x-slack-signature": f"v0={digest.hexdigest()}",
        }
        url = f"{self.gateway.url}/channels/slack/default"
        return await self._client.post(url, content=body, headers=headers)

    def event(self, text: str, **more: Any) -> bytes:
        self._count += 1
        event = {
            "type": "message",
            "channel": "D1",
            "channel_type": "im",
            "user": "UALICE",
            "text": text,
            "ts": f"1700000000.{self._count:06d}",
            **more,
        }
        return json.dumps({"type": "event_callback", "team_id": "T1", "event": event}).encode()

    async def say(self, text: str) -> None:
        """Sends a message until the gateway has it, as Slack does."""
        body = self.event(text)
        with anyio.fail_after(60):
            while (await self.post(body)).status_code != 200:  # noqa: ASYNC110 - Slack waits too
                await anyio.sleep(0.05)


@asynccontextmanager
async def slack(home: Path) -> AsyncGenerator[tuple[SlackServer, Slack]]:
    async with SlackServer() as server:
        account = {
            "mode": "http",
            "botToken": BOT_TOKEN,
            "signingSecret": SECRET,
            "apiRoot": server.root,
        }
        access = {"dmPolicy": "open", "allowFrom": ["*"]}
        config = {
            "channels": {"slack": {**account, **access}},
            "commands": {"ownerAllowFrom": ["slack:UALICE"]},
        }
        async with (
            running_gateway(home=home, config=config) as gateway,
            httpx2.AsyncClient(timeout=60) as client,
        ):
            yield server, Slack(gateway, client)
        assert server.faults == []


async def test_events_commands_and_buttons_arrive_signed(tmp_path: Path) -> None:
    async with slack(tmp_path) as (server, people):
        await people.say("hello")
        assert await server.wait_for(1) == ["echo: hello"]
        check = {"type": "url_verification", "challenge": "3eZbrw1a", "token": "x"}
        answer = await people.post(json.dumps(check).encode())
        assert (answer.status_code, answer.text) == (200, "3eZbrw1a")
        slash = {"command": "/skerry", "text": "whoami", "user_id": "UALICE", "channel_id": "D1"}
        body = urlencode({**slash, "trigger_id": "1.2.3", "channel_name": "directmessage"}).encode()
        for _ in range(2):  # Slack repeats what was not answered in time
            answer = await people.post(body, FORM)
            assert (answer.status_code, answer.text) == (200, "")
        assert (await server.wait_for(2))[1].startswith("You are the owner, over slack")
        action = {"value": "pressed", "action_ts": "1.5", "type": "button"}
        act = {"type": "block_actions", "user": {"id": "UALICE"}, "channel": {"id": "D1"}}
        pressed = json.dumps({**act, "actions": [action]})
        assert (await people.post(urlencode({"payload": pressed}).encode(), FORM)).is_success
        assert (await server.wait_for(3))[2] == "echo: pressed"
        assert len(server.texts()) == 3


@pytest.mark.abuse(40)
@pytest.mark.abuse(41)
@pytest.mark.parametrize(
    "wrong", [{"secret": "another"}, {"late": 400}, {"late": -400}], ids=["secret", "old", "future"]
)
async def test_nothing_is_taken_that_slack_did_not_just_sign(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    async with slack(tmp_path) as (server, people):
        await people.say("first")
        await server.wait_for(1)
        for body in (people.event("forged"), b'{"type":"url_verification","challenge":"x"}'):
            answer = await people.post(body, **wrong)
            assert (answer.status_code, answer.text == "x") == (401, False)
        url = f"{people.gateway.url}/channels/slack/default"
        async with httpx2.AsyncClient(timeout=60) as client:
            assert (await client.post(url, content=b"{}")).status_code == 401
            assert (await client.get(url)).status_code == 405
        assert (await people.post(b"no json")).status_code == 400
        assert (await people.post(b'{"type":"app_rate_limited"}')).status_code == 200
        await people.say("last")
        assert await server.wait_for(2) == ["echo: first", "echo: last"]


@pytest.mark.parametrize("point", ["store.after-commit:1", "delivery.after-send"])
async def test_a_kill_leaves_one_answer_to_a_repeated_event(tmp_path: Path, point: str) -> None:
    async with slack(tmp_path) as (server, people):
        gateway = people.gateway
        await gateway.stop()
        await gateway.start("--fault", point)
        body = people.event("hello")
        with anyio.fail_after(60):
            while gateway.alive:
                try:
                    await people.post(body)
                except httpx2.HTTPError:
                    break  # it was killed before it answered
                await anyio.sleep(0.05)
            await gateway.wait()
        await gateway.start()
        with anyio.fail_after(60):
            while (await people.post(body)).status_code != 200:  # noqa: ASYNC110 - as Slack does
                await anyio.sleep(0.05)
        await people.say("again")
        with anyio.fail_after(60):
            while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        assert server.texts() == ["echo: hello", "echo: again"]
