"""A node that a test plays: a paired device over a real WebSocket, and a whole gateway for it."""

import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from skerry.app.build import Application
from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from skerry.testing.model import ScriptedModel, echo
from tests.support.device import Device
from tests.support.whole import whole_gateway
from tests.support.wire import Frame, Wire, connected

CLIENT = {
    "id": "node-host",
    "displayName": "Phone",
    "version": "2",
    "platform": "ios",
    "mode": "node",
}


def photo(size: tuple[int, int] = (8, 6)) -> str:
    """Returns a picture in base64."""
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, "JPEG")
    return base64.b64encode(out.getvalue()).decode()


@dataclass
class NodeRig:
    """A gateway, its owner's connection, and its model."""

    application: Application
    address: GatewayAddress
    wire: Wire
    model: ScriptedModel

    async def begin(self, text: str, run: str = "r1", key: str = "main") -> None:
        """Sends a message of the owner."""
        params = {"sessionKey": key, "message": text, "idempotencyKey": run}
        await self.wire.send({"type": "req", "id": run, "method": "chat.send", "params": params})

    async def final(self, run: str = "r1") -> str:
        """Returns the answer of a run, as JSON."""
        event = await self.wire.event("chat", state="final", runId=run)
        return json.dumps(event["payload"].get("message"))

    async def approve(self) -> dict[str, Any]:
        """Allows the call that waits; returns the request for the approval."""

        def ends(frame: Frame) -> bool:
            is_final = frame.get("event") == "chat" and frame["payload"]["state"] == "final"
            return is_final or frame.get("event") == "exec.approval.requested"

        event = await self.wire.until(ends)
        assert event["event"] == "exec.approval.requested", "it ended without a question"
        payload: dict[str, Any] = event["payload"]
        params = {"id": payload["id"], "decision": "allow-once"}
        await self.wire.call("exec.approval.resolve", params)
        return payload


@asynccontextmanager
async def node_gateway(home: Path, config: dict[str, Any]) -> AsyncIterator[NodeRig]:
    """Serves a gateway with this configuration, and connects its owner."""
    model = ScriptedModel(echo)
    async with (
        whole_gateway(home, Hooks(), config=config, model=model) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        yield NodeRig(application, address, wire, model)


@asynccontextmanager
async def phone(rig: NodeRig, device: Device, *commands: str, **client: Any) -> AsyncIterator[Wire]:
    """Connects a node that has these commands."""
    about: dict[str, Any] = {
        "role": "node",
        "scopes": None,
        "client": CLIENT | client,
        "commands": [*commands],
    }
    async with device.connected(
        rig.address.url, auth={"token": rig.address.token}, **about
    ) as wire:
        yield wire


async def next_command(node: Wire) -> dict[str, Any]:
    """Returns the next command that a node gets, with its parameters."""
    request: dict[str, Any] = (await node.event("node.invoke.request"))["payload"]
    return {**request, "params": json.loads(request.get("paramsJSON", "null"))}


async def answer(node: Wire, request: dict[str, Any], payload: Any) -> None:
    """Answers a command as the node."""
    done = {"id": request["id"], "nodeId": request["nodeId"], "ok": True, "payload": payload}
    await node.call("node.invoke.result", done)


def using(tool: str, **arguments: Any) -> str:
    """Returns a message that makes the model call a tool."""
    return f"call {tool} {json.dumps(arguments)}"
