"""A client that asks a whole gateway over the wire and waits for the answer."""

import json
from typing import Any

import anyio

from skerry.client.client import GatewayClient
from tests.support.wire import Frame, Wire


async def ask(client: GatewayClient, text: str, **params: Any) -> dict[str, Any]:
    """Returns the result of a run of the main conversation; `params` go to `agent` too."""
    sent = {"sessionKey": "main", "message": text, "idempotencyKey": text[:40]} | params
    with anyio.fail_after(60):
        final = await client.request("agent", sent, expect_final=True)
    result: dict[str, Any] = final["result"]
    return result


def payload_text(result: dict[str, Any]) -> str:
    """Returns the text of all its payloads."""
    return "".join(payload["text"] for payload in result["payloads"])


async def chat(wire: Wire, message: str, key: str = "main") -> str:
    """Returns the last result of a tool, or the answer, to a message of the owner's, as JSON."""
    number = len(message) + sum(map(ord, message))
    params = {"sessionKey": key, "idempotencyKey": f"{key}-{number}", "message": message}
    await wire.call("chat.send", params)
    final = await wire.until(_is_final)
    wire.frames.clear()
    return json.dumps(final["payload"].get("message"))


def _is_final(frame: Frame) -> bool:
    return frame.get("event") == "chat" and frame["payload"]["state"] == "final"
