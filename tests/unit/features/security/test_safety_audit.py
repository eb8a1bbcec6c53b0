"""`skerry security audit` names each unsafe setting with its remedy, and fixes file modes."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main
from skerry.features.security.safety_audit import audit
from tests.support.tool_rules import config


def telegram(**settings: Any) -> dict[str, Any]:
    return {"channels": {"telegram": {"botToken": "1:a", **settings}}}


def test_open_groups_are_critical_where_guests_have_tools() -> None:
    tree = {**telegram(groupPolicy="open"), "tools": {"guests": {"allow": ["read"]}}}
    assert [(row.id, row.severity) for row in audit(config(tree))] == [
        ("channels.groups-open", "critical")
    ]
    assert audit(config(telegram())) == []


@pytest.mark.parametrize(
    ("tree", "finding"),
    [
        ({"gateway": {"auth": {"mode": "none"}}}, "gateway.auth-none"),
        ({"gateway": {"bind": "lan"}}, "gateway.bind"),
        ({"tools": {"elevated": {"allowFrom": {"telegram": ["*"]}}}}, "tools.elevated-everybody"),
        ({"agents": {"defaults": {"sandbox": {"mode": "off"}}}}, "sandbox.off"),
        ({"tools": {"exec": {"host": "gateway"}}}, "tools.exec-host"),
        ({"tools": {"guests": {"allow": ["write"]}}}, "tools.guests"),
        ({"session": {"dmScope": "main"}}, "session.dm-scope-main"),
        (telegram(dmPolicy="open", allowFrom=["*"]), "channels.dm-open"),
        (telegram(groupPolicy="open"), "channels.groups-open"),
        (telegram(accounts={"b": {"botToken": "1:a"}}), "channels.shared-token"),
        (
            telegram(accounts={"b": {"groupPolicy": "open", "botToken": "2"}}),
            "channels.groups-open",
        ),
    ],
)
def test_a_setting_that_opens_something_is_named(tree: dict[str, Any], finding: str) -> None:
    assert [row.id for row in audit(config(tree))] == [finding]
    assert audit(config({})) == []


def test_modes_are_corrected_and_the_exit_code_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, file = tmp_path / "home", tmp_path / "home" / "skerry.json"
    home.mkdir(mode=0o700)
    file.write_text("{}", encoding="utf-8")
    file.chmod(0o644)
    monkeypatch.setenv("SKERRY_STATE_DIR", str(home))
    monkeypatch.delenv("SKERRY_CONFIG_PATH", raising=False)
    assert main(["security", "audit", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["findings"]
    assert (row["id"], row["severity"], row["fixed"]) == ("files.mode", "critical", False)
    assert main(["security", "audit", "--fix"]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert main(["security", "audit", "--deep"]) == 0
    assert "No setting or file exposes" in capsys.readouterr().out
