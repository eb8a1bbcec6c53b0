"""The commands that OpenClaw ran unasked arrive with a person's yes, agent by agent."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main
from skerry.config.load import load
from skerry.model.ids import AgentId

FILE = {
    "version": 1,
    "defaults": {"security": "full"},
    "agents": {
        "default": {"allowlist": [{"pattern": "/usr/bin/git", "lastUsedAt": 5}]},
        "gone": {"allowlist": ["/usr/bin/df"]},
    },
}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, ours = tmp_path / "openclaw", tmp_path / "skerry"
    (home / "agents").mkdir(parents=True)
    (home / "openclaw.json").write_text("{}")
    (home / "exec-approvals.json").write_text(json.dumps(FILE))
    ours.mkdir(mode=0o700)
    monkeypatch.setenv("SKERRY_STATE_DIR", str(ours))
    return home


def patterns(home: Path) -> list[Any]:
    path = home.parent / "skerry" / "state.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT agent, pattern, source, last_used_at FROM allowlist"
        ).fetchall()


def test_nothing_is_allowed_without_a_yes(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "openclaw", str(old), "--apply", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (line,) = [row for row in report["configuration"] if row["key"] == "exec-approvals.main"]
    assert (line["value"], line["outcome"]) == (["/usr/bin/git"], "needs your yes")
    assert patterns(old) == []
    left = json.dumps(report["unmapped"])
    assert "exec-approvals.json: gone" in left
    (mode,) = [row for row in report["configuration"] if row["key"] == "tools.exec.security"]
    assert (mode["value"], mode["outcome"]) == ("full", "needs your yes")


def test_the_modes_of_the_file_apply_with_a_yes_where_they_are_stricter(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = {
        "tools": {"exec": {"ask": "always"}},
        "agents": {"list": [{"id": "main"}, {"id": "ops"}]},
    }
    (old / "openclaw.json").write_text(json.dumps(theirs))
    modes = {"ops": {"security": "deny"}, "gone": {"ask": "always"}}
    file = {**FILE, "defaults": {"security": "allowlist", "ask": "off"}, "agents": modes}
    (old / "exec-approvals.json").write_text(json.dumps(file))
    keys = ("tools.exec.ask", "tools.exec.security", "agents.list[1].tools.exec.security")
    words = ["import", "openclaw", str(old), "--apply", "--json"]
    assert main([*words, *(word for key in keys for word in ("--yes-to", key))]) == 0
    assert "modes of gone" in capsys.readouterr().out
    config = load({"SKERRY_STATE_DIR": str(old.parent / "skerry")}, fetch=False).config
    assert (config.tools.exec.security, config.tools.exec.ask) == ("allowlist", "always")
    agent = config.agents.by_id[AgentId("ops")].tools
    assert agent is not None
    assert agent.exec.security == "deny"


def test_with_a_yes_the_patterns_are_allowed_with_their_last_use(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["import", "openclaw", str(old), "--apply", "--yes-to", "exec-approvals.main", "--json"]
    for _ in range(2):
        assert main(words) == 0, capsys.readouterr().err
        assert patterns(old) == [("main", "/usr/bin/git", "import", 5)]


def test_a_damaged_file_is_named_and_stops_nothing(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "exec-approvals.json").write_text("{")
    assert main(["import", "openclaw", str(old), "--apply", "--json"]) == 0
    assert "the file is damaged" in capsys.readouterr().out
