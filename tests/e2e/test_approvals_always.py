"""Patterns that a person allows for good: by an answer, by hand, as a file; their log entries."""

import json
from pathlib import Path
from typing import Any

from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from tests.e2e.test_approvals import asking, begin, final, gateway
from tests.e2e.test_approvals_cli import skerry
from tests.support.asking_tool import AskingTool
from tests.support.cli import run_command
from tests.support.whole import whole_gateway
from tests.support.wire import connected


async def test_allow_always_adds_the_pattern_of_the_call(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (_, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert payload["request"]["allowAlways"] is True
        answer = {"id": payload["id"], "decision": "allow-always"}
        await wire.call("exec.approval.resolve", answer)
        assert "ran a" in await final(wire)
        (pattern,) = (await wire.call("exec.allowlist.list"))["patterns"]
        assert (pattern["agentId"], pattern["pattern"]) == ("main", "ask *")
        assert pattern["source"] == "allow-always"


async def test_a_call_without_a_pattern_is_allowed_once_only(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (_, wire):
        params = {"command": "echo hi"}
        await wire.send(
            {"type": "req", "id": "q", "method": "exec.approval.request", "params": params}
        )
        payload = (await wire.event("exec.approval.requested"))["payload"]
        answer = {"id": payload["id"], "decision": "allow-always"}
        refused = await wire.ask("exec.approval.resolve", answer)
        assert refused["error"]["details"]["code"] == "approval.no_always"
        assert await wire.call("exec.approval.list") != []


async def test_the_file_is_replaced_only_as_it_was_read(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (_, wire):
        empty = await wire.call("exec.approvals.get")
        file: dict[str, Any] = {
            "version": 1,
            "agents": {"main": {"allowlist": [{"pattern": "git status"}]}},
        }
        set_ = await wire.call("exec.approvals.set", {"file": file, "baseHash": empty["hash"]})
        (entry,) = set_["file"]["agents"]["main"]["allowlist"]
        assert entry["pattern"] == "git status"
        file["agents"]["main"]["allowlist"] = [{"pattern": "git log"}]
        late = await wire.ask("exec.approvals.set", {"file": file, "baseHash": empty["hash"]})
        assert late["error"]["details"]["code"] == "approvals.changed"
        await wire.call("exec.approvals.set", {"file": file, "baseHash": set_["hash"]})
        (pattern,) = (await wire.call("exec.allowlist.list"))["patterns"]
        assert pattern["pattern"] == "git log"
        file["defaults"] = {"security": "full"}
        refused = await wire.ask("exec.approvals.set", {"file": file})
        assert "tools.exec.security" in refused["error"]["details"]["remedy"]


async def test_a_person_keeps_the_allowlist_and_reads_the_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with whole_gateway(home, Hooks()) as (application, address):
        for words, code in (
            (("allowlist", "add", "git status"), 0),
            (("allowlist", "add", "ls", "--agent", "*"), 0),
            (("allowlist", "add", "python3 *"), 1),
            (("allowlist", "add", "sudo ls"), 1),
            (("allowlist", "add", "ls 'a"), 1),
            (("allowlist", "remove", "ls", "--agent", "*"), 0),
            (("allowlist", "remove", "never"), 1),
        ):
            completed = await skerry(application, address, *words)
            assert completed.returncode == code, completed.stderr
        listed = await skerry(application, address, "allowlist", "list", "--json")
        (row,) = json.loads(listed.stdout)["patterns"]
        assert (row["agentId"], row["pattern"], row["lastUsedAtMs"]) == ("main", "git status", None)
        await _log(home, address)


async def _log(home: Path, address: GatewayAddress) -> None:
    assert address.token
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home), "PATH": "/usr/bin:/bin"}
    shown = await run_command("audit", "--json", environ=environ)
    kinds = [entry["kind"] for entry in json.loads(shown.stdout)["entries"]]
    assert kinds == ["allowlist.added", "allowlist.added", "allowlist.removed"]
    verified = await run_command("audit", "--verify", "--json", environ=environ)
    report = json.loads(verified.stdout)
    assert (verified.returncode, report["ok"], report["entries"]) == (0, True, 3)
    file = home / "anchors"
    words = ("audit", "--verify", "--json", "--anchor-file", str(file))
    for count in (0, 1):
        kept = json.loads((await run_command(*words, environ=environ)).stdout)
        assert (kept["ok"], kept["anchors"]) == (True, count)
    assert file.read_text() == report["anchor"] + "\n"
    other = f"3:{'0' * 64}"
    changed = await run_command(*words, "--anchor", other, environ=environ)
    assert (changed.returncode, json.loads(changed.stdout)["brokenAt"]) == (1, 3)
    wrong = await run_command("audit", "--verify", "--anchor", "3", environ=environ)
    assert (wrong.returncode, b"NUMBER:HASH" in wrong.stderr) == (1, True)


async def test_the_log_names_each_step_of_an_approval(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        await begin(wire, asking("a"))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        answer = {"id": payload["id"], "decision": "allow-once"}
        await wire.call("exec.approval.resolve", answer)
        await final(wire)
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home), "PATH": "/usr/bin:/bin"}
    shown = await run_command("audit", "--json", environ=environ)
    entries = json.loads(shown.stdout)["entries"]
    assert [entry["kind"] for entry in entries] == [
        "approval.requested",
        "approval.allow-once",
        "approval.begun",
        "approval.ended",
    ]
    assert entries[0]["body"]["command"] == "ask a"
    assert {entry["body"]["id"] for entry in entries} == {payload["id"]}
