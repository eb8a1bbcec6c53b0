"""Pictures of answers in `chat.history`: within limits, and only what may be read."""

import base64
from pathlib import Path
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.gateway.methods import answer_pictures
from skerry.hooks.hooks import Hooks
from skerry.testing.model import ScriptedModel
from tests.support.whole import whole_gateway

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def pictures(home: Path, text: str, **more: Any) -> list[list[str]]:
    """Returns the pictures of each message of a conversation, oldest first."""
    model = ScriptedModel([[text], [text]])
    async with whole_gateway(home, Hooks(), config={}, model=model) as (application, address):
        config = application.settings.config
        workspace = config.workspace(config.agents.default_id)
        (workspace / "a.png").write_bytes(PNG)
        (workspace / "b.png").write_bytes(PNG + b"b")
        (workspace / "fake.png").write_text("no picture")
        (workspace / "link.png").symlink_to(workspace / "a.png")
        async with GatewayClient(address) as client:
            for key in ("k1", "k2"):
                params = {"sessionKey": "main", "message": "hi", "idempotencyKey": key}
                await client.request("chat.send", params)
                await client.request("agent.wait", {"runId": key, "timeoutMs": 60_000})
            payload = await client.request("chat.history", {"sessionKey": "main", **more})
    return [
        [
            base64.b64decode(block["data"]).hex()
            for block in message["content"]
            if block["type"] == "image"
        ]
        for message in payload["messages"]
        if message["role"] == "assistant"
    ]


async def test_an_answer_has_the_pictures_that_it_names(tmp_path: Path) -> None:
    others = "MEDIA: fake.png\nMEDIA: link.png\nMEDIA: ../x.png\n```\nMEDIA: a.png\n```"
    text = f"MEDIA: a.png ./b.png\n{others}"
    found = await pictures(tmp_path / "home", text)
    assert found == [[PNG.hex(), (PNG + b"b").hex()]] * 2


async def test_pictures_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_pictures, "MAX_PICTURES", 3)
    found = await pictures(tmp_path / "home", "MEDIA: a.png b.png")
    assert [len(one) for one in found] == [1, 2], "the newest come first"
    found = await pictures(tmp_path / "other", "MEDIA: a.png b.png", maxBytes=1024)
    assert sum(len(one) for one in found) < 4
