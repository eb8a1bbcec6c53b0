"""A gateway ends soon after a stop, even if its plugins do not end."""

from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.config.gateway import LOCK
from skerry.model.message import ToolCall
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer

HEAD = """
    import anyio, threading
    from pydantic import BaseModel
    from skerry.sdk.tools import FunctionTool
    from pathlib import Path

    class None_(BaseModel):
        pass

    begun = Path(__file__).with_suffix(".begun")
"""
DEAF = """
    async def stay(_, context):
        begun.touch()
        while True:
            try:
                await anyio.sleep_forever()
            except BaseException:
                pass
"""
THREAD = """
    def blocks():
        begun.touch()
        threading.Event().wait()

    async def stay(_, context):
        await anyio.to_thread.run_sync(blocks)
"""
PLAIN = """
    async def stay(_, context):
        threading.Thread(target=threading.Event().wait).start()
        begun.touch()
        return "begun"
"""
TAIL = """
    def register(api):
        api.register_tool(FunctionTool("stay", "Stays.", None_, stay))
"""


@pytest.mark.parametrize("code", [DEAF, THREAD, PLAIN], ids=["deaf", "worker", "thread"])
async def test_a_tool_that_does_not_end_does_not_keep_the_gateway(
    tmp_path: Path, code: str
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o700)
    plugin = folder / "stays.py"
    plugin.write_text(dedent(HEAD) + dedent(code) + dedent(TAIL))
    plugin.chmod(0o600)
    config = {
        "plugins": {"load": {"paths": ["plugins/stays.py"]}},
        "gateway": {"drainSeconds": 0.5},
    }
    async with (
        StubModelServer([[ToolCall("c", "stay", {})], ["done"]]) as model,
        running_gateway(home=tmp_path, model=model.base_url, config=config) as gateway,
    ):
        async with GatewayClient(gateway.address) as client:
            sent = {"sessionKey": "main", "message": "go", "idempotencyKey": "k"}
            await client.request("chat.send", sent)
            with anyio.fail_after(60):
                while not plugin.with_suffix(".begun").exists():
                    await anyio.lowlevel.checkpoint()
                if code is PLAIN:
                    await client.request(
                        "agent.wait", {"runId": "k", "timeoutMs": 60_000}, timeout=90
                    )
        with anyio.fail_after(60):
            assert await gateway.stop() == 0
        assert (tmp_path / LOCK).read_bytes() == b""  # it let go of the state in order
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            history = await client.request("chat.history", {"sessionKey": "main"})
        assert history["messages"][0]["role"] == "user"
        assert history["messages"][-1]["role"] == "assistant"
