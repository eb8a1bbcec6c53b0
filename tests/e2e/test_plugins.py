"""Plugin files in a whole gateway: one that works, and every kind that does not."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer

KITCHEN = Path(__file__).parents[2] / "docs" / "examples" / "plugins" / "kitchen.py"
BROKEN = {
    "hangs": """
        import anyio
        async def forever(event): await anyio.sleep_forever()
        def register(api):
            api.hooks.message_received(forever)
            api.hooks.agent_end(forever)
    """,
    "blocks": """
        import threading
        def register(api): api.hooks.message_sent(lambda event: threading.Event().wait())
    """,
    "raises": """
        async def no(event): raise RuntimeError("no")
        def register(api):
            for hook in ("before_model_resolve", "before_prompt_build", "llm_input", "llm_output"):
                api.on(hook, no)
    """,
    "nonsense": """
        async def no(event): return 42
        def register(api):
            api.hooks.before_agent_start(no)
            api.hooks.before_message_write(lambda event: "what")
    """,
    "absent": "this is no Python",
}


def write(home: Path) -> dict[str, Any]:
    """Writes the plugins; returns the section that names them."""
    folder = home / "plugins"
    folder.mkdir(mode=0o700)
    for name, code in BROKEN.items():
        (folder / f"{name}.py").write_text(dedent(code))
    (folder / "kitchen.py").write_bytes(KITCHEN.read_bytes())
    for file in folder.iterdir():
        file.chmod(0o600)
    paths = [f"plugins/{name}.py" for name in ("kitchen", *BROKEN)]
    return {"load": {"paths": paths}, "entries": {"kitchen": {"config": {"host": "Ada"}}}}


async def test_a_plugin_serves_and_broken_ones_harm_nobody(tmp_path: Path) -> None:
    config = {"plugins": write(tmp_path)}
    async with (
        StubModelServer() as model,
        running_gateway(home=tmp_path, model=model.base_url, config=config) as gateway,
        GatewayClient(gateway.address) as client,
    ):

        async def ask(text: str, key: str) -> str:
            params = {"message": text, "sessionKey": "main", "idempotencyKey": key}
            final = await client.request("agent", params, expect_final=True, timeout=60)
            said: str = final["result"]["payloads"][-1]["text"]
            return said

        assert await ask("hello", "k1") == "echo: hello"
        assert "The kitchen is kept by Ada." in str(model.requests[-1].body)
        assert await ask("/tea green", "k2") == "2 cups of green tea are left."
        assert len(model.requests) == 1  # a command asks no model
        brewed = await ask('call brew_tea {"kind": "green"}', "k3")
        assert "green tea, ready in 3 minutes" in brewed
        assert await client.request("kitchen.stock") == {"green": 1, "black": 1}
        with pytest.raises(GatewayRefusedError, match=r"invalid kitchen\.stock params"):
            await client.request("kitchen.stock", {"x": 1})

        listed = await client.request("plugins.list")
        plugins = (await client.request("status"))["plugins"]
        assert (plugins["failed"], "kitchen" in plugins["loaded"]) == (["absent"], True)
        offered = (await client.request("chat.metadata"))["commands"]
        assert {"tea", "status"} <= {row["name"] for row in offered}
        payload = {plugin["id"]: plugin for plugin in listed["plugins"]}
        assert {name: row["status"] for name, row in payload.items()} == dict.fromkeys(
            ("kitchen", "hangs", "blocks", "raises", "nonsense"), "loaded"
        ) | {"absent": "failed"}
        failing = {
            (failure["plugin"], failure["hook"])
            for row in payload.values()
            for failure in row["failures"]
        }
        assert failing >= {
            ("raises", "before_prompt_build"),
            ("raises", "llm_output"),
            ("nonsense", "before_agent_start"),
            ("nonsense", "before_message_write"),
        }
        commands = (await client.request("commands.list"))["commands"]
        assert (await client.request("chat.metadata"))["commands"] == commands
        assert [command["source"] for command in commands if command["name"] == "tea"] == ["plugin"]
        assert await gateway.stop() == 0
