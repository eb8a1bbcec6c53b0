"""`skerry relayer init --connect`: one command, and the gateway has an encrypted memory."""

import json
import os
import socket
from pathlib import Path

import pytest

from skerry.client.client import GatewayClient
from skerry.config.source import parse_any
from skerry.testing.gateway import running_gateway
from tests.support.cli import run_command
from tests.support.relayer_process import served


async def test_scripts_read_what_was_made_and_the_state_names_the_command_to_start(
    tmp_path: Path,
) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "SKERRY_STATE_DIR": str(home)}
    wrong = await run_command("relayer", "init", "--connect", "--url", "here:x", environ=environ)
    assert (wrong.returncode, b"is not an address" in wrong.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    words = ("relayer", "init", "--connect", "--json", "--url", f"http://127.0.0.1:{port}")
    completed = await run_command(*words, environ=environ)
    made = json.loads(completed.stdout)
    assert made["dir"] == str(home / "relayer")
    assert made["accountId"].startswith("0x")
    assert "plugins.slots.memory" in made["changed"]
    assert (
        json.loads(Path(made["secret"]).read_bytes())["privateKey"] not in completed.stdout.decode()
    )
    async with running_gateway(home=home) as gateway, GatewayClient(gateway.address) as client:
        status = await client.request("memory-memwal.status")
        assert status["ok"] is False
        assert status["text"].endswith("Connection refused.")
        assert status["remedy"] == f"Start it: skerry relayer serve --port {port}"


@pytest.mark.full("the embedding model of the relayer")
async def test_one_command_connects_a_gateway_with_a_relayer_and_keeps_the_key_apart(
    tmp_path: Path,
) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "SKERRY_STATE_DIR": str(home)}
    made = await run_command("relayer", "init", environ=environ)
    assert made.returncode == 0, made.stderr
    async with served(home) as relayer:
        words = ("relayer", "init", "--connect", "--url", relayer.url)
        completed = await run_command(*words, environ=environ)
        assert completed.returncode == 0, completed.stderr
        assert b"plugins.slots.memory" in completed.stdout
        secret = home / "secrets" / "memwal.json"
        assert secret.stat().st_mode & 0o777 == 0o600
        key = json.loads(secret.read_bytes())["privateKey"]
        assert key not in (home / "skerry.json").read_text()
        file = parse_any(home / "skerry.json", (home / "skerry.json").read_text())
        assert file["plugins"]["slots"] == {"memory": "memory-memwal"}
        async with (
            running_gateway(home=home) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            status = await client.request("memory-memwal.status")
            assert (status["ok"], status["memories"]) == (True, 0), status
        again = await run_command(*words, environ=environ)
        assert again.returncode == 1
        assert b"has a key already" in again.stderr
        assert json.loads(secret.read_bytes())["privateKey"] == key
