"""`skerry tools explain` and `list`: no gateway, the configuration alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("SKERRY_CONFIG_PATH", raising=False)
    return tmp_path


def written(home: Path, tree: dict[str, Any]) -> None:
    (home / "skerry.json").write_text(json.dumps(tree), encoding="utf-8")


def test_explain_prints_the_decision_its_rule_and_its_steps(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(home, {"tools": {"profile": "coding", "deny": ["group:runtime"]}})
    assert main(["tools", "explain", "bash", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() >= {"tool", "decision", "rule", "trail"}
    assert (answer["tool"], answer["decision"]) == ("bash", "deny")
    assert answer["rule"] == "tools.deny: group:runtime"
    assert {"layer": "deny", "effect": "deny", "rule": answer["rule"]} in answer["trail"]
    assert all(step.keys() == {"layer", "effect", "rule"} for step in answer["trail"])


def test_explain_takes_the_situation_from_its_options(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = {"id": "work", "tools": {"byProvider": {"openai/x": {"deny": ["read"]}}}}
    written(home, {"agents": {"list": [agent]}})

    def decision(*options: str) -> str:
        assert main(["tools", "explain", *options, "--json"]) == 0
        return str(json.loads(capsys.readouterr().out)["decision"])

    assert decision("read", "--agent", "work", "--provider", "openai/x") == "deny"
    assert decision("read", "--agent", "work") == "allow"
    assert decision("read", "--origin", "stranger") == "deny"
    assert decision("exec", "--host", "gateway") == "ask"
    assert decision("write", "--taint", "web", "--path", "SOUL.md") == "ask"
    assert decision("write", "--path", str(home / "skerry.json")) == "deny"
    assert decision("cron", "--session", "agent:work:subagent:1") == "deny"


def test_explain_and_list_are_read_by_people_too(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(home, {"tools": {"allow": ["read", "raed"]}})
    assert main(["tools", "explain", "exec"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("exec: deny (tools.allow: not listed)")
    assert "tools.allow: 'raed' selects no tool." in shown.err
    assert main(["tools", "list"]) == 0
    assert "read" in capsys.readouterr().out


def test_list_has_each_known_tool_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(home, {"tools": {"profile": "minimal"}})
    assert main(["tools", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tools"]
    assert [row["tool"] for row in rows if row["decision"] == "allow"] == ["session_status"]
    assert len({row["tool"] for row in rows}) == len(rows)


def test_an_agent_that_does_not_exist_is_named_with_those_that_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(home, {})
    assert main(["tools", "explain", "read", "--agent", "nobody"]) == 1
    assert "'nobody'. Agents: main" in capsys.readouterr().err


def test_a_tool_that_only_a_plugin_could_have_is_named_as_such(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(home, {})
    assert main(["tools", "explain", "raed", "--json"]) == 0
    assert "no tool 'raed'; it is treated as a tool of a plugin" in capsys.readouterr().err
    assert main(["tools", "explain", "bash", "--json"]) == 0
    assert "plugin" not in capsys.readouterr().err


@pytest.mark.parametrize("source", ["mcp", "file"])
def test_text_of_mcp_and_of_foreign_files_taints(
    source: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(home, {})
    assert main(["tools", "explain", "memory_write", "--taint", source, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"] == "ask"
