"""The example with every part, in a gateway of its own process: its model and its command."""

import os
import shutil
from pathlib import Path

import pytest

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.cli import run_command

POND = ROOT / "docs" / "examples" / "plugins" / "pond"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "pond"
    shutil.copytree(POND, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


async def test_a_model_of_a_plugin_answers_and_its_command_asks_the_gateway(
    tmp_path: Path, plugin: Path
) -> None:
    config = {"plugins": {"load": {"paths": [str(plugin)]}}}
    home = tmp_path / "state"
    async with (
        StubModelServer() as model,
        running_gateway(home=home, model=model.base_url, config=config) as gateway,
        GatewayClient(gateway.address) as client,
    ):

        async def ask(text: str, key: str) -> str:
            params = {"message": text, "sessionKey": "main", "idempotencyKey": key}
            final = await client.request("agent", params, expect_final=True, timeout=60)
            said: str = final["result"]["payloads"][-1]["text"]
            return said

        listed = (await client.request("models.list"))["models"]
        assert "pond/frog" in {f"{row['provider']}/{row['id']}" for row in listed}
        await ask("/model pond/frog", "k1")
        assert await ask("hello", "k2") == "croak: hello"
        assert not model.requests
        environ = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "SKERRY_STATE_DIR": str(home),
            "SKERRY_GATEWAY_URL": gateway.address.url,
            "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
        }
        completed = await run_command("pond", "--greeting", "Total", environ=environ)
        assert (completed.stdout, completed.returncode) == (b"Total: 0 leaps\n", 0), (
            completed.stderr
        )
        wrong = await run_command("pond", "--frogs", environ=environ)
        assert (wrong.returncode, b"skerry pond" in wrong.stderr) == (2, True)
        other = await run_command("pont", environ=environ)
        assert (other.returncode, other.stdout) == (2, b"")
        assert await gateway.stop() == 0
