"""Bytes of the first request to a model, as a new installation sends it."""

import tempfile
from pathlib import Path
from typing import Any

import anyio
import msgspec

from bench.measure import driver, figure, gateway
from skerry.testing.gateway import model_config
from skerry.testing.model_server import StubModelServer


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="skerry-") as home:
        async with StubModelServer() as stub:
            with gateway(Path(home), model_config(stub.base_url)) as running:
                async with driver(running) as client:
                    await client.turns(1, ["main"])
    (request,) = stub.requests
    system = next(message for message in request.body["messages"] if message["role"] == "system")
    tools = request.body.get("tools", [])
    figure(
        "first model request, bytes",
        "<= 12000",
        request.headers["content-length"],
        f"system prompt {size(system)}, {len(tools)} tool(s) {size(tools)}",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
