"""`skerry mcp`, its methods and checks, over a gateway whose model calls a tool of a server."""

import sys
from pathlib import Path

import anyio
import pytest

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.features.mcp import checks
from skerry.hooks.hooks import Hooks
from skerry.model.errors import ClientError
from skerry.ports.checks import Level
from skerry.sdk.features import Installation
from tests.support.cli import run_command, run_command_text
from tests.support.mcp import Script, config_of, tool
from tests.support.whole import whole_gateway

SCOPES = ("operator.admin", "operator.read", "operator.write")


async def test_a_model_calls_a_tool_of_a_server_written_with_the_sdk(tmp_path: Path) -> None:
    program = {"command": sys.executable, "args": ["-m", "tests.support.mcp_server"]}
    servers = {"sums": {**program, "cwd": str(ROOT), "autoApprove": ["add"]}}
    config = {"mcp": {"servers": servers}}
    async with (
        whole_gateway(tmp_path / "state", Hooks(), config=config) as (_, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        sent = {"message": 'call mcp_sums_add {"a": 2, "b": 40}', "idempotencyKey": "1"}
        with anyio.fail_after(60):
            final = await client.request("agent", sent, expect_final=True)
            listed = await client.request("mcp.list")
            payload = await client.request("mcp.test", {"server": "sums"})
            taint = await client.request("sessions.taint", {"key": "main"})
        text = str(final)
    assert "untrusted-result" in text
    assert "\\n42\\n" in text
    assert taint["origins"] == ["tool"]
    row = listed["servers"][0]
    assert (row["state"], row["tools"], row["held"], row["reason"]) == ("connected", 3, 0, None)
    assert [each["approval"] for each in payload["tools"]] == ["none", "ask", "ask"]


async def test_a_held_tool_is_trusted_by_its_digest_and_problems_are_in_the_status(
    tmp_path: Path,
) -> None:
    script, home = Script(tmp_path / "s.json", tool("echo")), tmp_path / "state"
    servers = {"small": script.server, "off": {"command": "x", "enabled": False}}
    config = {"mcp": {"servers": servers}}
    async with (
        whole_gateway(home, Hooks(), config=config) as (_, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        with anyio.fail_after(60):
            await client.request("mcp.test", {"server": "small"})
            script.write(tool("echo", "Another text."))
            payload = await client.request("mcp.test", {"server": "small"})
            status = await client.request("status")
            row = payload["tools"][0]
            trust = {"server": "small", "tools": {"echo": row["digest"]}}
            trusted = await client.request("mcp.trust", trust)
            after = await client.request("mcp.tools", {"server": "small"})
            with pytest.raises(ClientError, match="no enabled server 'off'"):
                await client.request("mcp.tools", {"server": "off"})
    assert (row["state"], row["offeredAs"]) == ("changed", None)
    assert (row["trustedDescription"], row["description"]) == ("Does it.", "Another text.")
    assert [check.level for check in checks.problems(status)] == [Level.WARNING]
    assert "held back until you trust them: echo" in status["toolProblems"][0]
    assert trusted == {"server": "small", "trusted": ["echo"]}
    assert after["tools"][0]["offeredAs"] == "mcp_small_echo"


@pytest.mark.parametrize(
    "words",
    [
        ["--env", "KEY=${TOKEN}", "files", "--", "npx", "-y", "--env", "x"],
        ["files", "--env", "KEY=${TOKEN}", "--", "npx", "-y", "--env", "x"],
    ],
)
def test_a_program_is_added_with_its_options_before_or_after_the_name(
    tmp_path: Path, words: list[str]
) -> None:
    environ = {"SKERRY_STATE_DIR": str(tmp_path), "HOME": str(tmp_path), "TOKEN": "secret"}
    completed = run_command_text("mcp", "add", *words, environ=environ)
    assert completed.returncode == 0, completed.stderr
    text = (tmp_path / "skerry.json").read_text()
    assert '"command": "npx"' in text
    assert "${TOKEN}" in text
    assert "secret" not in text


async def test_the_commands_list_the_servers_and_trust_only_with_a_confirmation(
    tmp_path: Path,
) -> None:
    script, home = Script(tmp_path / "s.json", tool("echo")), tmp_path / "state"
    config = {"mcp": {"servers": {"small": script.server}}}
    async with (
        whole_gateway(home, Hooks(), config=config) as (_, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        await client.request("mcp.test", {"server": "small"})
        script.write(tool("echo", "Another text."))
        reach = ("--url", address.url, "--token", str(address.token))
        environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}

        async def told(*words: str) -> tuple[int, str]:
            completed = await run_command("mcp", *words, *reach, environ=environ)
            return completed.returncode, (completed.stdout + completed.stderr).decode()

        code, text = await told("tools", "small")
        assert (code, text.splitlines()[1].split()[:3]) == (0, ["mcp_small_echo", "trusted", "ask"])
        code, text = await told("trust", "small")
        assert code == 1
        assert "before: Does it." in text
        assert "now:    Another text." in text
        assert "Pass --yes" in text
        code, text = await told("list")
        assert code == 0
        assert "skerry mcp trust small" in text
        assert str(script.path) not in text
        assert (await told("trust", "small", "--yes"))[1].endswith("Trusted: echo.\n")
        hidden = {"text": {"type": "string", "default": "~/notes"}}
        schema = {"type": "object", "properties": hidden}
        changed = tool("echo", "Another text.", inputSchema=schema)
        script.write(changed | {"annotations": {"readOnlyHint": True}})
        _, text = await told("trust", "small")
        assert '+ "default": "~/notes"' in text
        assert '- "type": "string"' in text
        assert "The server declares that the tool changes nothing" in text


async def test_the_doctor_names_a_missing_program_and_what_runs_without_a_question(
    tmp_path: Path,
) -> None:
    servers = {
        "gone": {"command": "no-such-program"},
        "open": {"command": sys.executable, "autoApprove": ["*"]},
        "plain": {"url": "http://10.0.0.7/mcp", "headers": {"X-Key": "secret"}},
        "off": {"command": "x", "enabled": False},
    }
    installation = Installation(tmp_path, {"PATH": "/usr/bin"}, config_of(tmp_path, servers))
    found = [(check.level, check.message) for check in await checks.servers(installation)]
    assert [level for level, _ in found] == [
        *(Level.FAILURE, Level.WARNING, Level.WARNING, Level.OK),
    ]
    assert "no-such-program" in found[0][1]
    assert "without approval" in found[1][1]
    assert "without encryption" in found[2][1]
    assert await checks.servers(Installation(tmp_path, {}, config_of(tmp_path, {}))) == []
