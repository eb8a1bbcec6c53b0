"""A client that asks a whole gateway over the wire and waits for the answer."""

from typing import Any

import anyio

from skerry.client.client import GatewayClient


async def ask(client: GatewayClient, text: str, **params: Any) -> dict[str, Any]:
    """Return the result of a run of the main conversation; `params` go to `agent` too."""
    sent = {"sessionKey": "main", "message": text, "idempotencyKey": text[:40]} | params
    with anyio.fail_after(60):
        final = await client.request("agent", sent, expect_final=True)
    result: dict[str, Any] = final["result"]
    return result


def said(result: dict[str, Any]) -> str:
    """Return the text of all its payloads."""
    return "".join(one["text"] for one in result["payloads"])
