"""`skerry memory forget` where no gateway runs: all goes; the next start finishes what was cut."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway
from tests.e2e.test_forgetting_kills import ALSO, FACT, ask, holding, told

PROGRAM = """
import os, sys
import anyio
from skerry.features.memory.offline import open_memory
from skerry.config.load import load_good
from skerry.model.ids import AgentId
from skerry.testing.gateway import die, planted

async def main():
    config = load_good(os.environ).config
    reach = planted(sys.argv[1], die)
    async with open_memory(config, os.environ, reach=reach) as alone:
        await alone.parts.forgets.forget(AgentId("main"), ["zebra quokka"], extra=True)

anyio.run(main)
"""
"""What the command does, with a fault that ends it."""


def configured(extra: Path) -> dict[str, Any]:
    search = {"provider": "none", "extraPaths": [str(extra)]}
    return {"agents": {"defaults": {"memorySearch": search}}}


async def program(home: Path, *words: str) -> tuple[int, str, str]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    with anyio.fail_after(100):
        completed = await anyio.run_process([sys.executable, *words], env=environ, check=False)
    return completed.returncode, completed.stdout.decode(), completed.stderr.decode()


def held_texts(home: Path, extra: Path) -> list[str]:
    return [*holding(home), *holding(extra)]


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    folder = tmp_path / "extra"
    folder.mkdir()
    (folder / "shared.md").write_text(f"Tea is ready. {FACT}\n")
    return folder


@pytest.mark.timeout(240)
async def test_without_a_gateway_it_goes_from_everywhere_with_the_same_report(
    tmp_path: Path, extra: Path
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home, config=configured(extra)) as gateway:
        await told(gateway)
        payload = await ask(gateway, "memory.forget", {"phrases": ["zebra quokka"], "dryRun": True})
        assert await gateway.stop() == 0
    words = ("-m", "skerry", "memory", "forget", "zebra quokka")
    code, out, err = await program(home, *words, "--dry-run", "--json")
    assert (code, json.loads(out)) == (0, payload), err
    assert held_texts(home, extra)
    code, out, err = await program(home, *words)
    assert (code, "--yes" in err) == (1, True), "nobody is there to be asked"
    code, out, err = await program(home, *words, "--yes", "--json")
    report = json.loads(out)
    assert (code, report["done"], report["waits"]) == (0, True, 0), err
    assert {name: report[name] for name in ("messages", "runs", "answers")} == {
        name: payload[name] for name in ("messages", "runs", "answers")
    }
    assert [row["path"] for row in report["left"]] == [str(extra / "shared.md")]
    assert {one.partition("/")[0] for one in held_texts(home, extra)} == {"memory", "shared.md"}, (
        "it is left there, and found there"
    )
    code, out, err = await program(home, *words, "--yes", "--extra")
    assert (code, out.startswith("Forgotten: 1 statement in files")) == (0, True), err
    assert held_texts(home, extra) == []


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "point",
    [
        "forget.begun",
        pytest.param("forget.redacted", marks=ALSO),
        pytest.param("forget.cleaned", marks=ALSO),
        pytest.param("forget.swept", marks=ALSO),
        pytest.param("forget.finishing", marks=ALSO),
    ],
)
async def test_what_a_killed_command_began_the_next_gateway_finishes_also_in_extra_paths(
    tmp_path: Path, extra: Path, point: str
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home, config=configured(extra)) as gateway:
        await told(gateway)
        assert await gateway.stop() == 0
        code, _, err = await program(home, "-c", PROGRAM, point)
        assert code == -signal.SIGKILL, err
        await gateway.start()
        with anyio.move_on_after(60):
            while held_texts(home, extra):  # noqa: ASYNC110 - files of another process
                await anyio.sleep(0.05)
        assert held_texts(home, extra) == [], gateway.output
        assert (extra / "shared.md").read_text().split() == ["Tea", "is", "ready."]
        async with GatewayClient(gateway.address) as client:
            history = await client.request("chat.history", {"sessionKey": "main"})
        assert "Hi. [forgotten] It rains." in str(history)
        assert await gateway.stop() == 0
    assert held_texts(home, extra) == []
