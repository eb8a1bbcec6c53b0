"""Plugins that are processes: their parts work, and their failures affect nothing else."""

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from scripts.requirements import ROOT
from skerry.hooks.events import MessageReceived, RunContext
from skerry.hooks.payloads import PromptDraft
from skerry.infra.backoff import Backoff
from skerry.model.errors import PluginError, ToolError
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.plugins import guarded
from skerry.plugins.remote import process, rpc
from skerry.testing.plugin import LoadedPlugin, loaded_plugin

PARROT = ROOT / "docs" / "examples" / "plugins" / "parrot"
CONTEXT = RunContext(
    run_id=RunId("r"), agent_id=AgentId("main"), session_key="k", session_id=SessionId("s")
)
PROGRAM = """
    import json, os, sys, time
    with open("../pids.txt", "a") as file: print(os.getpid(), file=file)
    TOOL = {"name": "odd", "description": "Odd.", "parameters": {"type": "object"}}
    def say(tree): print(json.dumps({"jsonrpc": "2.0", **tree}), flush=True)
    for text in sys.stdin:
        line = json.loads(text)
        method = line.get("method")
        if "id" not in line: continue
        try:
            BODY
        except SystemExit: raise
        if method == "register": say({"id": line["id"], "result": {"tools": [TOOL]}})
        else: say({"id": line["id"], "result": "done"})
"""


def parrot(home: Path) -> Path:
    folder = home / "parrot"
    shutil.copytree(PARROT, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def odd(home: Path, body: str, **manifest: Any) -> Path:
    """Makes a plugin whose process does `body` at each request."""
    folder = home / "odd"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "main.py").write_text(dedent(PROGRAM).replace("BODY", body))
    fields = {"name": "odd", "process": {"command": ["python3", "main.py"]}, **manifest}
    (folder / "openclaw.plugin.json").write_text(json.dumps(fields))
    return folder


def pids(folder: Path) -> list[int]:
    file = folder.parent / "pids.txt"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:4]


@asynccontextmanager
async def loaded(
    folder: Path, config: Mapping[str, Any] | None = None
) -> AsyncIterator[LoadedPlugin]:
    """Loads a plugin, and sees to it that none of its processes is left."""
    try:
        with anyio.fail_after(60):
            async with loaded_plugin(folder, config) as plugin:
                yield plugin
    finally:
        assert not [pid for pid in pids(folder) if alive(pid)]


async def test_the_example_is_told_and_answers_as_one_inside_would(tmp_path: Path) -> None:
    async with loaded(parrot(tmp_path), {"word": "ahoy"}) as plugin:
        assert await plugin.tool("parrot_repeat", {"text": "tea time"}) == "ahoy: tea time"
        with pytest.raises(ToolError, match="repeats no secrets"):
            await plugin.tool("parrot_repeat", {"text": "a secret"})
        with pytest.raises(ToolError, match="text is required"):
            await plugin.tool("parrot_repeat", {})
        assert await plugin.command("squawk", "Ada") == "ahoy Ada"
        event = MessageReceived(context=CONTEXT, sender="", content="hello", timestamp=1)
        await plugin.hooks.message_received.run(event)
        assert await plugin.method("parrot.said", {}) == {"said": 1, "read": 0}
        draft = PromptDraft(context=CONTEXT, prompt="hello", messages=(), provider="p", model="m")
        changed = await plugin.hooks.before_prompt_build.run(draft)
        assert changed.prepend_context == "The parrot says ahoy."
        (report,) = plugin.plugins.reports
        assert (report.services, report.routes) == (("parrot.listen",), ("/plugins/parrot/said",))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise SystemExit(3)", "its process ended with code 3"),
        ("sys.exit('no tea')", "its process ended with code 1: no tea"),
        ("print('hello', flush=True); time.sleep(600)", "no JSON-RPC: 'hello'"),
        (
            "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush(); time.sleep(600)",
            "no JSON-RPC",
        ),
        ("time.sleep(600)", "it did not register within 1 s"),
        ("sys.stdout.write('x' * 3000); sys.stdout.flush(); time.sleep(600)", "more than 2048"),
        ("say({'id': line['id'], 'result': 5})", "it registered no JSON object"),
        ("say({'id': line['id'], 'result': {'tool': []}})", "unknown field `tool`"),
        (
            "say({'id': line['id'], 'error': {'code': -32000, 'message': 'Buy tea.'}})",
            "Buy tea.",
        ),
    ],
)
async def test_a_process_that_does_not_register_is_not_loaded_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 1.0 if "1 s" in reason else 30.0)
    monkeypatch.setattr(rpc, "MAX_LINE", 2048)
    folder = odd(tmp_path, body)
    with pytest.raises(PluginError) as failed:
        async with loaded(folder):
            pytest.fail("it is not loaded")
    assert reason in str(failed.value)
    assert len(pids(folder)) == 1


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = odd(tmp_path, "", process={"command": ["no-such-program"]})
    with pytest.raises(PluginError, match="no-such-program cannot be started"):
        async with loaded(folder):
            pytest.fail("it is not loaded")


async def test_a_process_registers_nothing_that_its_manifest_does_not_list(tmp_path: Path) -> None:
    folder = odd(tmp_path, "pass", capabilities={"hooks": []})
    with pytest.raises(PluginError, match="The plugin registers tools"):
        async with loaded(folder):
            pytest.fail("it is not loaded")


async def test_a_process_that_hangs_ends_no_call_of_others_and_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "TOOL_SECONDS", 1.0)
    folder = odd(tmp_path, "if method == 'tool': continue")
    async with loaded(folder) as plugin:
        assert "did not return within 1 s" in await plugin.tool("odd", {})
        (report,) = plugin.plugins.handlers()
        assert (report.hook, report.failures) == ("tool odd", 1)
        assert len(pids(folder)) == 1


DIES = "if method == 'tool' and len(open('../pids.txt').readlines()) < 2: os._exit(9)"


async def test_a_process_that_dies_fails_its_calls_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "RESTARTS", Backoff(base=0, cap=0))
    folder = odd(tmp_path, DIES)
    async with loaded(folder) as plugin:
        assert "its process ended with code 9" in await plugin.tool("odd", {})
        assert await plugin.tool("odd", {}) == "done"
        first, second = pids(folder)
        assert (alive(first), alive(second)) == (False, True)


async def test_a_process_that_dies_again_and_again_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "RESTARTS", Backoff(base=600, cap=600))
    folder = odd(tmp_path, DIES)
    async with loaded(folder) as plugin:
        assert "its process ended with code 9" in await plugin.tool("odd", {})
        assert "code 9; it is started again in" in await plugin.tool("odd", {})
        assert len(pids(folder)) == 1


async def test_a_process_that_reads_nothing_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "TOOL_SECONDS", 5.0)
    monkeypatch.setattr(rpc, "MAX_QUEUED", 2)
    folder = odd(tmp_path, "if method == 'tool': time.sleep(600)")
    answers: list[str] = []
    async with loaded(folder) as plugin, anyio.create_task_group() as tasks:

        async def call() -> None:
            answers.append(await plugin.tool("odd", {"text": "x" * 100_000}))

        for _ in range(8):
            tasks.start_soon(call)
    assert len(answers) == 8
    assert any("does not read its input" in answer for answer in answers)


async def test_a_process_gets_no_variable_that_its_manifest_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKERRY_GATEWAY_TOKEN", "hidden")
    monkeypatch.setenv("TEA_KEY", "green")
    names = "' '.join(os.environ)"
    body = f"if method == 'tool': say({{'id': line['id'], 'result': {names}}}); continue"
    command = {"command": ["python3", "main.py"], "env": ["TEA_KEY", "NOT_SET"]}
    async with loaded(odd(tmp_path, body, process=command)) as plugin:
        given = (await plugin.tool("odd", {})).split()
    assert "TEA_KEY" in given
    assert not [name for name in given if "SKERRY" in name or "TOKEN" in name]


async def test_a_changed_file_of_a_process_is_not_the_pinned_one(tmp_path: Path) -> None:
    folder = odd(tmp_path, "pass")
    async with loaded(folder) as plugin:
        (report,) = plugin.plugins.reports
        assert not plugin.plugins.changed(report)
        (folder / "data.txt").write_text("more")
        assert plugin.plugins.changed(report)
