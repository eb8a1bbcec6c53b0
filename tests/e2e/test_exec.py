"""The tool `exec` through policy, approval and sandbox, in a whole gateway."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from skerry.app.build import Application
from skerry.hooks.hooks import Hooks
from skerry.model.ids import AgentId
from skerry.testing.gateway import running_gateway
from tests.e2e.test_approvals import begin, final
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

HOST = {"tools": {"exec": {"host": "gateway"}}}


def call(command: str, **more: Any) -> str:
    return f"call exec {json.dumps({'command': command, **more})}"


@asynccontextmanager
async def gateway(home: Path, config: Any = None) -> AsyncIterator[tuple[Application, Wire, Path]]:
    async with (
        whole_gateway(home, Hooks(), config=config or {}) as (application, address),
        connected(address.url, auth={"token": address.token}, caps=["tool-events"]) as wire,
    ):
        yield application, wire, application.settings.config.workspace(AgentId("main"))


@pytest.mark.requirement("exec-host-sandbox-default")
async def test_a_command_runs_in_the_sandbox_unasked_and_the_workspace_is_its_folder(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "home") as (_, wire, workspace):
        await begin(wire, call("pwd; echo made > made.txt; ls /root 2>&1 | head -1; id -u"))
        text = await final(wire)
        assert "/workspace" in text
        assert (workspace / "made.txt").read_text() == "made\n"
        tool = [
            frame["payload"]["data"]
            for frame in wire.frames
            if frame.get("event") == "agent" and frame["payload"].get("stream") == "tool"
        ]
        assert [row["phase"] for row in tool if row["phase"] != "update"] == ["start", "result"]


async def test_a_command_of_the_sandbox_that_is_asked_about_runs_once_when_it_is_allowed(
    tmp_path: Path,
) -> None:
    config = {"tools": {"exec": {"ask": "always"}}}
    async with gateway(tmp_path / "home", config) as (_, wire, workspace):
        await begin(wire, call("echo x >> made.txt"))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert payload["request"]["command"] == "echo x >> made.txt"
        assert (payload["request"]["host"], payload["request"]["rule"]) == ("sandbox", "ask-always")
        assert payload["request"]["allowAlways"] is False
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        await final(wire)
        assert (workspace / "made.txt").read_text() == "x\n"


@pytest.mark.requirement("exec-allowlist-audit")
@pytest.mark.requirement("exec-host-gateway")
@pytest.mark.requirement("exec-two-stage-approval")
async def test_on_this_machine_a_command_is_asked_about_and_allowed_for_good(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "home", HOST) as (_, wire, workspace):
        await begin(wire, call("ls note.txt"), "r1")
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert (payload["request"]["host"], payload["request"]["allowAlways"]) == ("gateway", True)
        assert payload["request"]["cwd"] == str(workspace)
        answer = {"id": payload["id"], "decision": "allow-always"}
        await wire.call("exec.approval.resolve", answer)
        assert "note.txt" in await final(wire, runId="r1")
        await begin(wire, call("ls note.txt"), "r2")
        assert "note.txt" in await final(wire, runId="r2")
        assert await wire.call("exec.approval.list") == []
        await wire.call("exec.allowlist.add", {"pattern": "df"})  # writes the note of the use
        listed = (await wire.call("exec.allowlist.list"))["patterns"]
        used = {pattern["pattern"]: pattern["lastUsedCommand"] for pattern in listed}
        assert used == {"ls note.txt": "ls note.txt", "df": None}


@pytest.mark.parametrize(
    ("config", "command", "more", "rule"),
    [
        (HOST, "ls", {"env": {"LD_PRELOAD": "x"}}, "exec-env"),
        (HOST, "ls", {"host": "sandbox"}, "exec-host"),
        (HOST, "ls", {"host": "sandbox", "elevated": True}, "exec-host"),
        (
            {"tools": {"elevated": {"enabled": False}}},
            "ls",
            {"elevated": True},
            "tools.elevated.enabled",
        ),
        (
            {"tools": {"exec": {**HOST["tools"]["exec"], "ask": "off"}}},
            "rm x",
            {},
            "allowlist-miss",
        ),
        ({"tools": {"exec": {"security": "deny"}}}, "ls", {}, "security-deny"),
        ({"tools": {"deny": ["exec"]}}, "ls", {}, ""),
    ],
)
async def test_what_is_denied_does_not_run_and_names_its_rule(
    tmp_path: Path, config: Any, command: str, more: Any, rule: str
) -> None:
    async with gateway(tmp_path / "home", config) as (_, wire, _):
        await begin(wire, call(command, **more))
        assert f"was denied by the rule {rule}" in await final(wire)


async def test_a_script_that_changes_after_the_answer_does_not_run(tmp_path: Path) -> None:
    config = {"tools": {"exec": {"ask": "always"}}}
    async with gateway(tmp_path / "home", config) as (_, wire, workspace):
        script = workspace / "run.sh"
        script.write_text("echo one > out.txt\n")
        await begin(wire, call("sh run.sh"))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        script.write_text("echo two > out.txt\n")
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        assert "denied by the rule approval-changed" in await final(wire)
        assert not (workspace / "out.txt").exists()


async def test_a_command_ends_with_its_time(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as (_, wire, workspace):
        await begin(wire, call("sleep 600", timeout=0.5))
        assert "was killed after 0.5 s" in await final(wire)
        assert workspace.is_dir()


def work(action: str, session: str = "", **more: Any) -> str:
    return f"call process {json.dumps({'action': action, 'sessionId': session, **more})}"


async def answer(wire: Wire, text: str) -> str:
    key = uuid4().hex
    await begin(wire, text, key)
    return await final(wire, runId=key)


async def test_a_command_in_the_background_is_read_written_and_ended(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as (_, wire, _):
        text = await answer(
            wire, call("echo ready; while read line; do echo got $line; done", background=True)
        )
        assert "Command still running (session " in text
        name = text.partition("(session ")[2].partition(",")[0]
        assert "Wrote 7 bytes" in await answer(wire, work("write", name, data="a word\n"))
        text = ""
        while "got a word" not in text:
            text = await answer(wire, work("poll", name, timeout=60_000))
        assert r"ready\ngot a word" in await answer(wire, work("log", name))
        assert f"{name} running" in await answer(wire, work("list"))
        assert f"Killed session {name}." in await answer(wire, work("kill", name))
        assert f"Removed session {name}." in await answer(wire, work("remove", name))
        assert f"No session found for {name}" in await answer(wire, work("poll", name))


async def test_a_command_that_takes_longer_than_its_call_goes_on(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as (_, wire, workspace):
        go_on = "until [ -e go ]; do sleep 0.05; done; echo done"
        text = await answer(wire, call(go_on, yieldMs=10))
        name = text.partition("(session ")[2].partition(",")[0]
        (workspace / "go").touch()
        text = ""
        while "still running" in text or not text:
            text = await answer(wire, work("poll", name, timeout=60_000))
        assert "Process exited with code 0." in text


async def test_the_end_of_a_command_in_the_background_starts_a_turn(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as (_, wire, workspace):
        await begin(
            wire, call("until [ -e go ]; do sleep 0.05; done; echo done; exit 7", yieldMs=10)
        )
        assert "still running" in await final(wire)
        (workspace / "go").touch()
        text = await final(wire)
        assert "Process exited with code 7." in text
        assert "The end of its output" in text


async def test_input_for_a_command_on_this_machine_needs_a_person(tmp_path: Path) -> None:
    config = {"tools": {"exec": {"host": "gateway", "ask": "on-miss"}}}
    async with gateway(tmp_path / "home", config) as (_, wire, workspace):
        await begin(wire, call("/bin/sh", background=True), "r1")
        allow = {"decision": "allow-once"}
        payload = (await wire.event("exec.approval.requested"))["payload"]
        await wire.call("exec.approval.resolve", {"id": payload["id"], **allow})
        name = (await final(wire)).partition("(session ")[2].partition(",")[0]
        await begin(wire, work("write", name, data="touch made\n"), "r2")
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert payload["request"]["rule"] in {"process-input", "tainted-host"}
        assert payload["request"]["host"] == "gateway"
        assert "touch made" in payload["request"]["command"]
        assert not (workspace / "made").exists()
        await wire.call("exec.approval.resolve", {"id": payload["id"], **allow})
        assert "Wrote 11 bytes" in await final(wire)
        with anyio.fail_after(60):
            while not (workspace / "made").exists():
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("place", ["sandbox", "gateway"])
async def test_a_killed_gateway_leaves_no_command_with_a_terminal(
    tmp_path: Path, place: str
) -> None:
    config = {"tools": {"exec": {"host": place, "security": "full"}}}
    async with running_gateway(home=tmp_path / "home", config=config) as running:
        work = "sleep 600 & while :; do echo x >> beat; sleep 0.05; done"
        beat = f"trap '' HUP INT TERM; setsid sleep 600 & {work}"
        async with connected(running.address.url, auth={"token": running.token}) as wire:
            await begin(wire, call(beat, background=True, pty=True))
            assert "still running" in await final(wire)
            (workspace,) = tmp_path.glob("home/workspace*")
            with anyio.fail_after(60):
                while not (workspace / "beat").exists():
                    await anyio.lowlevel.checkpoint()
            assert works_in(workspace)
            await running.kill()
        with anyio.fail_after(60):
            while works_in(workspace):
                await anyio.lowlevel.checkpoint()


def works_in(folder: Path) -> bool:
    """Returns whether the folder is the working directory of a process."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").samefile(folder):
                return True
    return False


async def test_a_command_without_network_does_not_taint_its_run_and_another_does(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "home", HOST) as (_, wire, workspace):
        (workspace / "note.txt").write_text("mine")
        for run, command, rule in (
            ("r1", "cat note.txt", "allowlist-miss"),
            ("r2", "cat ../skerry.json | wc -c", "allowlist-miss"),
            ("r3", "wc note.txt", "tainted-host"),
        ):
            await begin(wire, call(command), run)
            payload = (await wire.event("exec.approval.requested"))["payload"]
            assert payload["request"]["rule"] == rule
            answer = {"id": payload["id"], "decision": "allow-once"}
            await wire.call("exec.approval.resolve", answer)
            await final(wire, runId=run)
