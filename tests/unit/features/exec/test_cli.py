"""`skerry exec check` as a person and a script use it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from skerry.cli.main import main
from skerry.store import DATABASE, allowlist, open_store

CONFIG = """{
  tools: {exec: {allowlist: ["git status"], ask: "off"}},
  agents: {list: [
    {id: "main"},
    {id: "work", tools: {exec: {allowlist: ["git diff *"], ask: "on-miss", safeBins: []}}},
  ]},
}"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "skerry.json").write_text(CONFIG)
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))


async def answers(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lines: bytes,
    *arguments: str,
) -> list[Any]:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    command = ["exec", "check", "--stdin", "--json", *arguments]
    assert await to_thread.run_sync(main, command) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_each_line_is_answered_and_a_bad_one_stops_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"\n".join(
        [
            b'{"id": 1, "command": "git status | wc -l", "cwd": "/tmp"}',
            b'{"id": 2, "command": 5}',
            b'{"id": NaN, "command": "ls"}',
            b'{"id": 1e999, "command": "ls"}',
            b"not json",
            b"\xff",
            b"[" * 100_000,
            b'"text"',
            b"{" + b" " * 2_000_000 + b"}",
            b'{"id": "x", "command": "ls", "security": "most"}',
            b'{"id": "y", "command": "ls", "ask": "always", "security": "full"}',
            b'{"id": null, "command": "\\ud800"}',
            b"",
            b'{"id": 3, "command": "git status", "security": "deny"}',
        ]
    )
    rows = await answers(capsys, monkeypatch, lines)
    assert rows[0] == {
        "id": 1,
        "decision": "allow",
        "rule": "allowlist safe-bin",
        "reason": "each command is a safe bin or matches a pattern",
        "segments": [
            {
                "argv": ["git", "status"],
                "program": "/usr/bin/git",
                "decision": "allow",
                "rule": "allowlist",
            },
            {
                "argv": ["wc", "-l"],
                "program": "/usr/bin/wc",
                "decision": "allow",
                "rule": "safe-bin",
            },
        ],
    }
    assert [(line["id"], line["decision"], line["rule"]) for line in rows[1:]] == [
        (2, "deny", "bad-line"),
        *[(None, "deny", "bad-line")] * 7,
        ("x", "deny", "bad-line"),
        ("y", "ask", "ask-always"),
        (None, "deny", "character"),
        (3, "deny", "security-deny"),
    ]
    assert all(line["error"]["message"] for line in rows if line["rule"] == "bad-line")


@pytest.mark.requirement("exec-allowlist-per-agent")
async def test_an_agent_has_its_own_patterns_and_only_stricter_modes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ("git status", "git diff x", "wc", "rm x")
    lines = b"\n".join(json.dumps({"command": each}).encode() for each in commands)
    main_agent = await answers(capsys, monkeypatch, lines)
    harmless = b'{"command": "rm x", "security": "full", "ask": "off"}'
    (loosened,) = await answers(capsys, monkeypatch, harmless, "--agent", "work")
    assert (loosened["decision"], loosened["rule"]) == ("ask", "allowlist-miss")
    work = await answers(capsys, monkeypatch, lines, "--agent", "work")
    assert [line["decision"] for line in main_agent] == ["allow", "deny", "allow", "deny"]
    assert [line["decision"] for line in work] == ["ask", "allow", "ask", "ask"]


async def test_one_command_is_told_to_a_person_and_an_unknown_agent_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ran(*arguments: str) -> int:
        return main(["exec", "check", *arguments])

    assert await to_thread.run_sync(ran, "--", "git", "status") == 0
    assert "allow (allowlist)" in capsys.readouterr().out
    assert await to_thread.run_sync(ran, "--agent", "nobody", "--", "ls") == 1
    assert "Configured agents: main, work" in capsys.readouterr().err
    assert await to_thread.run_sync(ran) == 2
    assert "--stdin" in capsys.readouterr().err


async def test_patterns_that_a_person_allowed_for_good_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: allowlist.add(unit, "work", "stat x", "person", "me", 1))
    line = b'{"command": "stat x"}'
    (main_agent,) = await answers(capsys, monkeypatch, line)
    (work,) = await answers(capsys, monkeypatch, line, "--agent", "work")
    assert (main_agent["decision"], work["decision"]) == ("deny", "allow")
    (tmp_path / DATABASE).write_bytes(b"no database" * 1000)
    (broken,) = await answers(capsys, monkeypatch, line, "--agent", "work")
    assert broken["decision"] == "ask"
