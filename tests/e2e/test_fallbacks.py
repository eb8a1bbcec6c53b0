"""Credentials and fallback models through a whole gateway: the order of calls, and their bytes."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import Cut, HttpStep, StatusReply, StubModelServer
from tests.support.asking import ask, payload_text

CONFIGURED = ["--model", "configured"]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n pixels").decode()
KEYS = {"key-number-one": "one", "key-number-two": "two"}
WINDOW, ANSWER = 6000, 500
LARGE = {"id": "large", "reasoning": True, "input": ["text", "image"], "contextWindow": 200_000}
SMALL = {"id": "small", "contextWindow": WINDOW, "maxTokens": ANSWER}


def config(base_url: str, *, key: str | None = "test") -> dict[str, Any]:
    provider: dict[str, Any] = {"baseUrl": base_url, "models": [LARGE, SMALL]}
    if key is not None:
        provider["apiKey"] = key
    model = {"primary": "test/large", "fallbacks": ["test/small"]}
    return {
        "models": {"mode": "replace", "providers": {"test": provider}},
        "agents": {"defaults": {"model": model, "thinkingDefault": "high"}},
    }


def write_profiles(home: Path, base_url: str) -> None:
    path = home / "agents" / "main" / "agent" / "auth-profiles.json"
    path.parent.mkdir(parents=True, mode=0o700)
    profiles = {
        f"test:{name}": {"type": "api_key", "provider": "test", "key": key, "baseUrl": base_url}
        for key, name in KEYS.items()
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps({"version": 1, "profiles": profiles}))


class Rig:
    """A model server that can refuse a model or a key, and records its requests."""

    def __init__(self) -> None:
        self.refused: dict[str, HttpStep] = {}
        self.asked: list[tuple[str, str]] = []
        self.server = StubModelServer(self._say)

    def _say(self, body: dict[str, Any]) -> Sequence[HttpStep]:
        token = self.server.requests[-1].headers["authorization"].removeprefix("Bearer ")
        key, model = KEYS.get(token, token), body["model"]
        self.asked.append((key, model))
        refusal = self.refused.get(key, self.refused.get(model))
        return [f"{model} by {key}"] if refusal is None else [refusal]

    def bodies(self, model: str) -> list[dict[str, Any]]:
        return [
            request.body for request in self.server.requests if request.body.get("model") == model
        ]


async def test_a_fall_back_is_asked_as_what_it_is_and_within_its_window(tmp_path: Path) -> None:
    rig = Rig()
    async with rig.server as server:
        async with (
            running_gateway(
                home=tmp_path, config=config(server.base_url), arguments=CONFIGURED
            ) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            image = {"type": "image", "mimeType": "image/png", "content": PNG}
            await ask(client, "look at it", attachments=[image])
            for number in range(4):
                await ask(client, f"{number} " + "word " * 1500)
            rig.refused["large"] = StatusReply(529)
            answer = await ask(client, "and now?")
        (first, *_), last = rig.bodies("large"), rig.bodies("small")[-1]
    assert payload_text(answer) == "small by test"
    system = last["messages"][0]["content"]
    assert "model=test/large" in first["messages"][0]["content"]
    assert "model=test/small" in system
    assert "test/large" not in system
    assert first["reasoning_effort"] == "high"
    assert "reasoning_effort" not in last
    assert PNG in json.dumps(first)
    assert last["messages"][-1]["content"].endswith("and now?")
    for body in rig.bodies("small"):  # what is asked to keep within it, included
        assert PNG not in json.dumps(body)
        tokens = len(json.dumps([body["messages"], body.get("tools")])) // 4
        assert tokens + body["max_tokens"] <= WINDOW


async def test_a_refused_key_is_followed_by_the_next_and_the_session_stays_with_it(
    tmp_path: Path,
) -> None:
    rig = Rig()
    async with rig.server as server:
        write_profiles(tmp_path, server.base_url)
        settings = config(server.base_url, key=None)
        async with (
            running_gateway(home=tmp_path, config=settings, arguments=CONFIGURED) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            rig.refused["one"] = StatusReply(401)
            assert payload_text(await ask(client, "hi")) == "large by two"
            del rig.refused["one"]
            rig.asked.clear()
            for number in range(3):
                assert payload_text(await ask(client, f"again {number}")) == "large by two"
            assert rig.asked == [("two", "large")] * 3


@pytest.mark.parametrize(
    "failure",
    [Cut(connection=True), Cut(), ReplyGate()],
    ids=["connection cut", "response cut", "silence until the time-out"],
)
async def test_a_model_that_breaks_off_or_hangs_is_followed_by_the_fall_back(
    tmp_path: Path, failure: HttpStep
) -> None:
    rig = Rig()
    rig.refused["large"] = failure
    async with rig.server as server:
        settings = config(server.base_url)
        settings["models"]["providers"]["test"]["timeoutSeconds"] = 1
        async with (
            running_gateway(home=tmp_path, config=settings, arguments=CONFIGURED) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            assert payload_text(await ask(client, "hi")) == "small by test"
