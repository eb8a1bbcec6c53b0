"""Messages to clients and people when a provider refuses: the remedy, and the time of a retry."""

import json
import os

import anyio

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StatusReply, StubModelServer
from tests.support.cli import run_command
from tests.support.wire import Frame, Wire, connected, request

LIMITED = StatusReply(429, b'{"error":{"message":"slow down"}}', (("retry-after", "120"),))
KEY = StatusReply(401, b'{"error":{"message":"bad key"}}')


async def test_a_refused_key_and_a_limit_are_told_with_the_next_step() -> None:
    async with (
        StubModelServer([[LIMITED], [KEY], [KEY], [LIMITED]]) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        with anyio.fail_after(60):
            async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
                limited = await failed(wire, "limited")
                refused = await failed(wire, "refused")
                chat = [frame["payload"] for frame in wire.frames if frame.get("event") == "chat"]
            terminal = await agent_output(gateway)
            later = await agent_output(gateway, "Send it again in 120 s")
    assert limited["details"]["code"] == "model.rate_limit"
    assert (limited["retryable"], limited["retryAfterMs"]) == (True, 120_000)
    assert limited["details"]["remedy"].startswith("Send it again in 120 s, or choose another")
    assert refused["details"]["code"] == "model.auth"
    assert refused["details"]["remedy"].startswith("Enter another key: skerry auth add ")
    ends = [row for row in chat if row["state"] == "error"]
    assert [end["errorKind"] for end in ends] == ["rate_limit", "unknown"]
    assert [end["errorDetail"]["failoverReason"] for end in ends] == ["rate_limit", "auth"]
    assert b"Try: Enter another key: skerry auth add " in terminal
    assert b"Try: Send it again in 120 s, or choose another model: skerry models use." in later


async def failed(wire: Wire, text: str) -> Frame:
    """Returns the error of the run that answers `text`."""
    params = {"message": text, "sessionKey": text, "idempotencyKey": text}
    await wire.send(request("agent", params, id=text))
    while (answer := await wire.response(text))["ok"]:
        pass  # accepted
    error: Frame = answer["error"]
    return error


async def agent_output(gateway: GatewayProcess, remedy: str = "Enter another key: ") -> bytes:
    """Returns the output of `skerry agent` for a failure with this remedy."""
    environ = {**os.environ, "SKERRY_STATE_DIR": str(gateway.home)}
    completed = await run_command("agent", "--message", "hello", "--json", environ=environ)
    assert completed.returncode == 1
    assert json.loads(completed.stdout)["remedy"].startswith(remedy)
    return completed.stderr
