"""The life of a plugin in a gateway of its own process, from `init` to `shutdown`."""

from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway

CODE = """
    from pathlib import Path
    import anyio

    FILE = Path(__file__).with_name("trace.txt")
    def note(text):
        with FILE.open("a") as file:
            file.write(text + "\\n")
    def register(api):
        async def started(event): note(f"started {event.port > 0}")
        async def stopping(event): note("stopping")
        async def serve():
            note("serving")
            try:
                await anyio.sleep_forever()
            finally:
                note("served")
        api.hooks.gateway_start(started)
        api.hooks.gateway_stop(stopping)
        api.register_service("serve", serve)
        note("registered")
    async def init(): note("begun")
    def shutdown(): note("shut down")
"""


@pytest.mark.requirement("plugin-init-shutdown")
@pytest.mark.requirement("hooks-gateway-boundaries")
async def test_a_plugin_is_told_of_the_beginning_and_the_end_of_the_gateway(tmp_path: Path) -> None:
    plugin = tmp_path / "tea.py"
    plugin.write_text(dedent(CODE))
    plugin.chmod(0o600)
    trace = tmp_path / "trace.txt"
    config = {"plugins": {"load": {"paths": [str(plugin)]}}}

    def lines() -> list[str]:
        return trace.read_text().split() if trace.exists() else []

    async with running_gateway(home=tmp_path / "state", config=config) as gateway:
        async with GatewayClient(gateway.address) as client:
            (listed,) = (await client.request("plugins.list"))["plugins"]
            assert listed["reason"] == ""
        with anyio.fail_after(60):
            while not {"serving", "started"} <= set(lines()):  # noqa: ASYNC110 - another process writes them
                await anyio.sleep(0.02)
        assert await gateway.stop() == 0
    texts = trace.read_text().splitlines()
    assert texts[:2] == ["registered", "begun"]
    assert sorted(texts[2:4]) == ["serving", "started True"]
    assert texts[4:] == ["stopping", "served", "shut down"]
