"""Both command lines of OpenClaw, unmodified, against a gateway of ours."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer

HERE = Path(__file__).parent
NODE = HERE.parent / "node" / "node_modules" / ".bin" / "node"
VERSIONS = ("2026.2.17", "2026.9.6")
SECONDS = 120

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SKERRY_OPENCLAW"), reason="make conformance runs it"),
]


@dataclass(frozen=True)
class OpenClaw:
    """One version with a home of its own, which knows the gateway as its remote one."""

    version: str
    home: Path
    gateway: GatewayProcess

    async def run(self, *arguments: str) -> str:
        """Returns the output of the command, which must succeed."""
        program = HERE / self.version / "node_modules" / "openclaw" / "openclaw.mjs"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "OPENCLAW_STATE_DIR": str(self.home / ".openclaw"),
            "NO_COLOR": "1",
        }

        def work() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(NODE), str(program), *arguments],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )

        completed = await anyio.to_thread.run_sync(work)
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    @property
    def reach(self) -> tuple[str, ...]:
        """Returns the flags that name the gateway."""
        return ("--url", self.gateway.address.url, "--token", self.gateway.token, "--json")


@pytest.fixture(params=VERSIONS)
async def openclaw(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenClaw]:
    async with (
        StubModelServer() as model,
        running_gateway(home=tmp_path / "skerry", model=model.base_url) as gateway,
    ):
        state = tmp_path / "client" / ".openclaw"
        state.mkdir(mode=0o700, parents=True)
        remote = {"url": gateway.address.url, "token": gateway.token}
        config = {"gateway": {"mode": "remote", "remote": remote}}
        (state / "openclaw.json").write_text(json.dumps(config))
        yield OpenClaw(request.param, state.parent, gateway)


async def test_call_asks_for_any_method(openclaw: OpenClaw) -> None:
    health = json.loads(await openclaw.run("gateway", "call", "health", *openclaw.reach))
    assert health["ok"] is True
    listed = json.loads(await openclaw.run("gateway", "call", "sessions.list", *openclaw.reach))
    assert listed["sessions"] == []


async def test_agent_prints_the_answer_and_goes_on_in_its_session(openclaw: OpenClaw) -> None:
    for text in ("hello", "and again"):
        completed = await openclaw.run("agent", "--agent", "main", "--message", text, "--json")
        answer = json.loads(completed[completed.index("{") :])
        assert answer["status"] == "ok"
        assert answer["result"]["payloads"][0]["text"] == f"echo: {text}"
    listed = json.loads(await openclaw.run("gateway", "call", "sessions.list", *openclaw.reach))
    assert [session["key"] for session in listed["sessions"]] == ["agent:main:main"]


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("cron list", "No "),
        ("nodes list", "Paired: 0"),
        ("nodes status", ""),
        ("health", "Agents: main (default)"),
        ("status", "Sessions"),
        ("channels status", "Gateway reachable."),
        ("system presence", "127.0.0.1"),
        ("logs --plain --limit 3", ""),
        ("approvals get --gateway", "Allowlist"),
        ("gateway probe", "Reachable: yes"),
        ("gateway health", "OK"),
    ],
)
async def test_an_overview_is_printed(openclaw: OpenClaw, command: str, printed: str) -> None:
    assert printed in await openclaw.run(*command.split())


async def test_a_device_is_paired_and_listed(openclaw: OpenClaw) -> None:
    listed = json.loads(await openclaw.run("devices", "list", "--json"))
    known = {row["clientId"] for row in listed["paired"]} if listed["paired"] else set()
    # Only the older one shows a device where the shared token is enough.
    assert known == ({"cli"} if openclaw.version == "2026.2.17" else set())
    again = json.loads(await openclaw.run("devices", "list", "--json"))
    assert len(again["paired"]) == len(listed["paired"])
