"""What users complain of elsewhere, where no other test shows that it does not happen here.

The whole list, with the test of each, is in docs/promises.md.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import HttpStep, StatusReply, StubModelServer
from tests.support.chaos import rig
from tests.support.wire import connected


async def say(client: GatewayClient, text: str) -> str:
    """Returns the answer to a message in the main conversation."""
    params = {"sessionKey": "main", "message": text, "idempotencyKey": text}
    final = await client.request("agent", params, expect_final=True)
    return "".join(payload["text"] for payload in final["result"]["payloads"])


async def texts(client: GatewayClient) -> list[str]:
    """Returns the texts of the main conversation."""
    payload = await client.request("chat.history", {"sessionKey": "main"})
    return [part.get("text", "") for message in payload["messages"] for part in message["content"]]


def forgets_nothing(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Answers with all messages of the person; fails on request."""
    said = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
    return [StatusReply(401)] if said[-1] == "fail" else [" and ".join(said)]


async def test_a_conversation_goes_on_after_an_error_of_the_provider_and_a_restart(
    tmp_path: Path,
) -> None:
    async with (
        StubModelServer(forgets_nothing) as model,
        running_gateway(model=model.base_url, home=tmp_path) as gateway,
    ):
        async with GatewayClient(gateway.address) as client:
            assert await say(client, "one") == "one"
            with pytest.raises(GatewayRefusedError):
                await say(client, "fail")
        assert await gateway.stop() == 0
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            assert await say(client, "two") == "one and fail and two"
            assert [text for text in await texts(client) if text in {"one", "two"}] == [
                "one",
                "one",
                "two",
            ]


async def test_an_answer_whose_reader_lost_the_connection_is_there_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as (gateway, _, model):
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            sent = {"sessionKey": "main", "message": "look m1", "idempotencyKey": "k1"}
            assert (await wire.call("chat.send", sent))["status"] == "started"
        async with GatewayClient(gateway.address) as client:  # the same person, on a new socket
            with anyio.fail_after(60):
                ended = await client.request(
                    "agent.wait", {"runId": "k1", "timeoutMs": 60_000}, timeout=90
                )
            assert ended["status"] == "ok"
            repeated = await client.request("chat.send", sent)  # as a client does that is not sure
            assert repeated["status"] == "ok"
            assert [text for text in await texts(client) if text == "answer to m1"] == [
                "answer to m1"
            ]
        assert model.count == 2  # the call of a tool, and the answer
