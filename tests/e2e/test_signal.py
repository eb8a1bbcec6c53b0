"""Signal through a whole gateway: conversations over both bridges, orderly stops, and kills."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.runtime.delivery import MISSING
from skerry.testing.gateway import running_gateway
from skerry.testing.signal_server import NUMBER, SignalServer
from tests.support.cli import run_command


def everybody(server: SignalServer, bridge: str = "daemon") -> dict[str, Any]:
    account = {"number": NUMBER, "apiRoot": server.root, "bridge": bridge}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"signal": {**account, **access}}}


@pytest.mark.parametrize("bridge", ["daemon", "rest"])
async def test_a_conversation_runs_over_a_stop(tmp_path: Path, bridge: str) -> None:
    async with SignalServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server, bridge)) as gateway:
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
            assert set(server.typed) <= {"+491701"}
            assert await gateway.stop() == 0
            server.say("while it was away")
            await gateway.start()
            assert (await server.wait_for(2))[1] == "echo: while it was away"
        assert (server.faults, server.waiting) == ([], [])


@pytest.mark.parametrize("bridge", ["daemon", "rest"])
async def test_a_number_is_linked_by_a_code_that_a_phone_reads(tmp_path: Path, bridge: str) -> None:
    async with SignalServer(accounts=[]) as server:
        configuration = everybody(server, bridge)
        del configuration["channels"]["signal"]["number"]
        async with running_gateway(home=tmp_path, config=configuration) as gateway:
            environ = {
                "HOME": str(tmp_path),
                "SKERRY_STATE_DIR": str(tmp_path),
                "SKERRY_GATEWAY_URL": gateway.address.url,
                "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
            }
            command = [sys.executable, "-m", "skerry", "channels", "add", "signal", "--link"]
            async with await anyio.open_process(command, env=environ) as process:
                assert process.stderr is not None
                shown = ""
                with anyio.fail_after(60):
                    while "\nsgnl://" not in shown:
                        shown += (await process.stderr.receive()).decode(errors="replace")
                    server.agree(NUMBER)
                    code = await process.wait()
                assert code == 0, (await process.stderr.receive()).decode()
            assert "▄" in shown, "no code was drawn"
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
        stored = json.loads((tmp_path / "skerry.json").read_text())
        assert stored["channels"]["signal"]["number"] == NUMBER
        assert server.faults == []


async def test_a_link_that_is_refused_says_why(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path)}
    words = ("channels", "add", "signal", "--link", "--set", "apiRoot=http://127.0.0.1:9")
    completed = await run_command(*words, environ=environ)
    assert (completed.returncode, b"cannot be reached" in completed.stderr) == (1, True)
    completed = await run_command("channels", "add", "telegram", "--link", environ=environ)
    assert (completed.returncode, b"Telegram cannot be linked by a code" in completed.stderr) == (
        1,
        True,
    )


@pytest.mark.parametrize(
    "point", ["dispatch.accepted", "delivery.before-send", "delivery.after-send"]
)
async def test_a_kill_after_the_ledger_loses_nothing_silently_and_repeats_nothing(
    tmp_path: Path, point: str
) -> None:
    async with SignalServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                try:
                    await gateway.start("--fault", point)
                    await gateway.wait()
                except AssertionError:
                    pass  # it was killed before it was ready
            await gateway.start()
            server.say("again")
            # signal-cli cannot tell whether it sent a part, so the person is told.
            expected = {
                "dispatch.accepted": ["echo: hello", "echo: again"],
                "delivery.before-send": [MISSING, "echo: again"],
                "delivery.after-send": ["echo: hello", MISSING, "echo: again"],
            }[point]
            await server.wait_for(len(expected))
            await gateway.stop()
        assert sorted(server.texts) == sorted(expected)
        assert server.faults == []
