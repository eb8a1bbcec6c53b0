"""OpenClaw's `exec-approvals.json`: imported entries, skipped entries, and invalid files."""

import json

import pytest

from skerry.config.exec_approvals import FileEntry, parse

FILE = {
    "version": 1,
    "socket": {"path": "/x.sock", "token": "t"},
    "defaults": {"security": "allowlist", "ask": "on-miss"},
    "agents": {
        "default": {"allowlist": ["/usr/bin/git", {"pattern": "/usr/bin/jq", "lastUsedAt": 5.0}]},
        "ops": {
            "allowlist": [
                {"id": "1", "pattern": "/bin/df", "lastUsedCommand": "df -h"},
                {"pattern": "/bin/rm", "argPattern": "^/tmp"},
                " ",
            ],
            "mcpTools": [{"server": "s", "tool": "t", "source": "allow-always", "addedAt": 1}],
        },
    },
}


def test_patterns_are_taken_by_agent_and_the_old_default_is_main() -> None:
    file = parse(json.dumps(FILE).encode())
    assert file is not None
    assert file.entries() == [
        FileEntry("main", "/usr/bin/git"),
        FileEntry("main", "/usr/bin/jq", 5),
        FileEntry("ops", "/bin/df", None, "df -h"),
    ]


def test_what_would_allow_more_than_before_is_left_out_and_told() -> None:
    file = parse(json.dumps(FILE).encode())
    assert file is not None
    notes = "; ".join(file.left_out())
    assert "1 patterns of agent ops with an expression of arguments" in notes
    assert "1 tools of MCP servers" in notes
    assert "defaults.security" not in notes


def test_modes_are_given_by_agent_and_unknown_ones_are_named() -> None:
    modes = {"ops": {"ask": "always"}, "default": {"security": "deny", "ask": "never"}}
    tree = {**FILE, "agents": modes}
    file = parse(json.dumps(tree).encode())
    assert file is not None
    assert file.modes() == {
        "*": {"security": "allowlist", "ask": "on-miss"},
        "ops": {"ask": "always"},
        "main": {"security": "deny"},
    }
    assert file.left_out() == ["agents.default.ask=never: there is no such mode"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "agents": {"a": 1}}']
)
def test_a_damaged_file_or_another_version_gives_nothing(content: bytes) -> None:
    assert parse(content) is None
