"""`skerry models use` beside a running gateway, which answers with the choice at once."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.cli import run_command


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with StubModelServer(["one"]) as model:
        listed = [{"id": "stub"}, {"id": "other"}]
        config = {
            "models": {
                "providers": {"test": {"baseUrl": model.base_url, "apiKey": "k", "models": listed}}
            },
            "agents": {
                "defaults": {
                    "model": {"primary": "test/stub"},
                    "models": {"test/stub": {}, "test/other": {"alias": "spare"}},
                }
            },
        }
        arguments = ["--model", "configured"]
        async with running_gateway(home=tmp_path, config=config, arguments=arguments) as running:
            yield running


async def use(gateway: GatewayProcess, choice: str) -> CompletedProcess[bytes]:
    environ = {**os.environ, "SKERRY_STATE_DIR": str(gateway.home), "HOME": str(gateway.home)}
    return await run_command("models", "use", choice, "--json", environ=environ)


async def answering(gateway: GatewayProcess) -> str:
    async with GatewayClient(gateway.address) as client:
        ref: str = (await client.request("models.status"))["model"]["ref"]
    return ref


def stored_configuration(gateway: GatewayProcess) -> Any:
    return json.loads((gateway.home / "skerry.json").read_text("utf-8"))


async def test_a_name_an_alias_and_auto_are_taken_at_once(gateway: GatewayProcess) -> None:
    for choice, ref in (("test/other", "test/other"), ("test/stub", "test/stub")):
        completed = await use(gateway, choice)
        assert completed.returncode == 0, completed.stderr
        shown = json.loads(completed.stdout)
        assert (shown["model"]["ref"], shown["gatewayRunning"]) == (ref, True)
        assert await answering(gateway) == ref
    assert (await use(gateway, "spare")).returncode == 0
    assert await answering(gateway) == "test/other"
    assert stored_configuration(gateway)["agents"]["defaults"]["model"]["primary"] == "test/other"
    await use(gateway, "auto")
    assert (
        stored_configuration(gateway)["agents"]["defaults"].get("model", {}).get("primary") is None
    )


@pytest.mark.parametrize("choice", ["nobody/model", "what is this"])
async def test_what_is_no_model_changes_nothing_and_says_what_to_do(
    gateway: GatewayProcess, choice: str
) -> None:
    before = stored_configuration(gateway)
    completed = await use(gateway, choice)
    assert completed.returncode != 0
    assert b"\nTry: " in completed.stderr
    assert stored_configuration(gateway) == before
    assert await answering(gateway) == "test/stub"


async def test_a_file_is_written_by_the_command_and_read_by_the_gateway(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF")
    completed = await use(gateway, str(file))
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout)["gatewayRunning"] is True
    assert stored_configuration(gateway)["models"]["embedded"]["file"] == str(file)
    async with GatewayClient(gateway.address) as client:
        config = await client.request("config.get")
    assert config["runtimeConfig"]["models"]["embedded"]["file"] == str(file)
    assert await answering(gateway) == "test/stub"  # a configured model goes first
