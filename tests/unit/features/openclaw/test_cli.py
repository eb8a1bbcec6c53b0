"""An installation of OpenClaw is brought over: looked at first, then whole, and only once."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main
from skerry.config.load import load
from skerry.infra.lock import locked
from skerry.workspace.workspace_init import seed

CANARY = "sk-canary-0123456789abcdef"
CONFIG: dict[str, Any] = {
    "gateway": {"mode": "local", "port": 21020, "token": "5eed" * 12},
    "agents": {
        "defaults": {"model": {"primary": "openai/gpt-5"}, "heartbeat": {"every": "30m"}},
        "list": [{"id": "main", "identity": {"name": "Clawd"}}, {"id": "work", "default": True}],
    },
    "channels": {"whatsapp": {"dmPolicy": "pairing"}},
    "session": {"dmScope": "per_peer"},
}


def line(**fields: Any) -> str:
    return json.dumps(fields)


def transcript(session_id: str, text: str) -> list[str]:
    at = "2026-02-17T10:00:00.000Z"
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": f"heard {text}"}],
        "api": "openai-completions",
        "provider": "openai",
        "model": "gpt-5",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1771322401000,
    }
    params = {"role": "user", "content": text, "timestamp": 1771322400000}
    return [
        line(type="session", version=3, id=session_id, timestamp=at, cwd="/"),
        line(type="message", id="a", parentId=None, timestamp=at, message=params),
        line(type="message", id="b", parentId="a", timestamp=at, message=answer),
    ]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Makes a home as OpenClaw 2026.2 leaves it for `main`, and 2026.9 for `work`."""
    home = tmp_path / "openclaw"
    for folder in ("agents/main/sessions", "agents/main/agent", "agents/work/agent"):
        (home / folder).mkdir(parents=True)
    (home / "openclaw.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    sessions = home / "agents/main/sessions"
    (sessions / "one.jsonl").write_text("\n".join(transcript("one", "tea")), encoding="utf-8")
    known = {"agent:main:main": {"sessionId": "one", "updatedAt": 1771322401000}}
    (sessions / "sessions.json").write_text(json.dumps(known), encoding="utf-8")
    profile = {"type": "api_key", "provider": "openai", "key": CANARY}
    odd = {"type": "magic", "provider": "openai"}
    profiles = {"version": 1, "profiles": {"openai:default": profile, "openai:odd": odd}}
    (home / "agents/main/agent/auth-profiles.json").write_text(json.dumps(profiles))
    database(home / "agents/work/agent/openclaw-agent.sqlite")
    for name in ("workspace", "workspace-main"):
        (home / name / "memory").mkdir(parents=True)
        (home / name / "MEMORY.md").write_text(f"likes tea, {name}", encoding="utf-8")
        (home / name / "memory/2026-02-17.md").write_text("tea", encoding="utf-8")
    (home / "workspace/outside").symlink_to("/etc")
    (home / "workspace/passwd").symlink_to("/etc/passwd")
    (home / "cron").mkdir()
    return home


def database(file: Path) -> None:
    """Writes what is read of the tables of 2026.9, of a session whose last line is packed too."""
    with closing(sqlite3.connect(file)) as made, made:
        made.executescript(
            "CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT);"
            "CREATE TABLE session_windows (session_id TEXT, session_key TEXT, created_at INTEGER);"
            "CREATE TABLE transcript_events"
            " (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB);"
            "CREATE TABLE auth_profile_store (store_key TEXT, store_json TEXT);"
        )
        made.execute("INSERT INTO session_nodes VALUES ('agent:work:main', 'new')")
        for session_id in ("old", "new", "packed"):
            row = (session_id, "agent:work:main", 1771322400000)
            made.execute("INSERT INTO session_windows VALUES (?, ?, ?)", row)
            for seq, event in enumerate(transcript(session_id, "coffee")):
                packed = session_id == "packed" and seq == 2
                values = (session_id, seq, None if packed else event, b"x" if packed else None)
                made.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", values)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SKERRY_CONFIG_PATH", raising=False)
    return tmp_path / "state"


def brought(old: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["import", "openclaw", str(old), "--json", *more]) == 0
    shown = capsys.readouterr()
    assert CANARY not in shown.out + shown.err
    report: dict[str, Any] = json.loads(shown.out)
    return report


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_a_dry_run_says_it_all_and_writes_nothing(
    old: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(old)
    report = brought(old, capsys)
    assert not state.exists()
    assert files(old) == before
    assert report["sessions"] == {"can be imported": 3}
    assert report["credentials"] == ["main/openai:default"]
    left = {row["what"]: row["why"] for row in report["unmapped"]}
    assert {"gateway.port", "cron"} <= left.keys()
    by_hand = {row["key"] for row in report["configuration"] if row["outcome"] == "by hand"}
    assert by_hand == {"gateway.auth.token"}
    asked = {row["key"] for row in report["configuration"] if row["outcome"] == "needs your yes"}
    assert {"agents.defaults.heartbeat.every", "channels.whatsapp.dmPolicy"} <= asked
    assert "both use 18789" in left["gateway.port"]
    missed = {row["what"]: row["names"] for row in report["missed"]}
    assert missed == {"Channels": ["whatsapp"]}
    assert "compressed" in left["session packed"]
    assert "link" in left[str(old / "workspace/outside")]
    assert "credential main/openai:odd" in left


def test_everything_comes_over_once_and_the_old_home_stays(
    old: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(old)
    first = brought(old, capsys, "--apply", "--yes-to", "session.dmScope")
    assert first["sessions"] == {"imported": 2, "imported as an earlier session": 1}
    config = load({"SKERRY_STATE_DIR": str(state), "HOME": str(state.parent)}).config
    assert config.agents.ids == ("main", "work")
    assert config.agents.defaults.model.primary == "openai/gpt-5"
    assert config.gateway.auth.token is None
    assert config.gateway.port == 18789
    assert config.session.dm_scope == "per-peer"
    workspaces = {"main": "workspace-main", "work": "workspace"}
    for agent, name in workspaces.items():
        workspace = config.workspace(config.agents.ids[agent == "work"])
        assert (workspace / "MEMORY.md").read_text("utf-8") == f"likes tea, {name}"
        assert (workspace / "memory/2026-02-17.md").is_file()
        assert not (workspace / "passwd").exists()
    for file, data in files(state).items():
        assert CANARY.encode() not in data, file
    assert files(old) == before
    again = brought(old, capsys, "--apply")
    assert again["sessions"] == {"already there": 3}
    assert all(workspace["copied"] == 0 for workspace in again["workspaces"])
    assert main(["sessions", "import", "--dry-run", str(old / "agents/main/sessions")]) == 0


def test_nothing_is_taken_while_a_gateway_runs_or_from_a_wrong_place(
    old: Path, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir(mode=0o700)
    with locked(state / "gateway.lock"):
        assert main(["import", "openclaw", str(old), "--apply"]) == 1
    assert "Stop it first" in capsys.readouterr().err
    assert main(["import", "openclaw", str(tmp_path / "none")]) == 1
    assert "not a home of OpenClaw" in capsys.readouterr().err


def test_what_is_there_already_is_kept_and_said(
    old: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = state / "workspace"
    workspace.mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    (workspace / "MEMORY.md").write_text("mine", encoding="utf-8")
    (state / "skerry.json").touch(mode=0o600)
    ours = {"agents": {"defaults": {"model": {"primary": "a/b"}}}}
    (state / "skerry.json").write_text(json.dumps(ours), encoding="utf-8")
    report = brought(old, capsys, "--apply")
    kept = [row["key"] for row in report["configuration"] if row["outcome"] == "yours is kept"]
    assert kept == ["agents.defaults.model.primary"]
    assert (workspace / "MEMORY.md").read_text("utf-8") == "mine"
    assert any(row["what"].endswith("workspace/MEMORY.md") for row in report["unmapped"])


@pytest.mark.usefixtures("state")
def test_a_damaged_session_of_the_database_leaves_the_others_whole(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One with a line that is no JSON, one on a page that is no page any more."""
    file = old / "agents/work/agent/openclaw-agent.sqlite"
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("CREATE INDEX events ON transcript_events (session_id, seq)")
        made.execute("UPDATE transcript_events SET event_json = 'x' WHERE session_id = 'old'")
        for number in range(40):
            row = (f"big{number:02}", "agent:work:big", 1771322400000)
            made.execute("INSERT INTO session_windows VALUES (?, ?, ?)", row)
            event = json.dumps({"type": "session", "version": 3, "id": f"big{number:02}"})
            values = (f"big{number:02}", 0, event + " " * 3000, None)
            made.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", values)
        made.execute("INSERT INTO session_nodes VALUES ('agent:work:big', 'big00')")
    data = bytearray(file.read_bytes())
    page = data.index(b'"big20"') // 4096 * 4096
    data[page : page + 4096] = b"\xff" * 4096
    file.write_bytes(data)
    report = brought(old, capsys, "--apply")
    payload = {row["what"]: row["why"] for row in report["unmapped"]}
    assert "import again" in payload["session big20"]
    assert "session old" in payload
    assert not {f"session big{place}" for place in (10, 30)} & payload.keys()
    assert "session new" not in payload
    assert str(file) not in payload


def garble(file: Path) -> None:
    file.write_bytes(b"no database at all, but long enough " * 200)


def drop(file: Path) -> None:
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("DROP TABLE auth_profile_store")


def scribble(file: Path) -> None:
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("INSERT INTO auth_profile_store VALUES ('primary', '{\"profiles\": {')")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("harm", "why", "remedy"),
    [
        (garble, "file is not a database", ".recover"),
        (drop, "no such table: auth_profile_store", ".recover"),
        (scribble, "not JSON", "skerry auth add"),
    ],
)
def test_a_damaged_database_of_credentials_says_what_is_wrong_and_what_to_do(
    old: Path,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[Path], None],
    why: str,
    remedy: str,
) -> None:
    folder = old / "agents/work/agent"
    harm(folder / "openclaw-agent.sqlite")
    whies = [
        row["why"]
        for row in brought(old, capsys)["unmapped"]
        if row["what"].startswith(str(folder)) and "credentials" in row["why"]
    ]
    assert len(whies) == 1
    assert why in whies[0]
    assert remedy in whies[0]
    assert "Error" not in whies[0]


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)], ids=["usual", "said so"])
def test_lines_of_a_transcript_that_cannot_be_read_are_in_the_report(
    old: Path, state: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    file = old / "agents/main/sessions/one.jsonl"
    file.write_text(file.read_text() + '\n{"type": "message", "id": "c')
    assert main(["import", "openclaw", str(old), *arguments]) == 0
    assert f"{file}: line 4: it is not JSON" in capsys.readouterr().err
    assert not state.exists()


def test_untouched_templates_give_way_and_the_greeting_goes_and_what_was_changed_stays(
    old: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = state / "workspace"
    state.mkdir(mode=0o700)
    seed(workspace)
    (workspace / "USER.md").write_text("changed by me", encoding="utf-8")
    for name in ("SOUL.md", "USER.md"):
        (old / "workspace" / name).write_text(f"the old {name}", encoding="utf-8")
    report = brought(old, capsys)
    assert (workspace / "BOOTSTRAP.md").is_file()
    assert report["workspaces"][1]["replaced"] == 1
    brought(old, capsys, "--apply")
    assert (workspace / "SOUL.md").read_text("utf-8") == "the old SOUL.md"
    assert (workspace / "USER.md").read_text("utf-8") == "changed by me"
    assert not (workspace / "BOOTSTRAP.md").exists()
    again = brought(old, capsys, "--apply")
    assert [workspace["replaced"] for workspace in again["workspaces"]] == [0, 0]


def test_a_home_of_one_workspace_is_taken_and_every_folder_is_taken_or_named(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "old"
    for folder in ("workspace-main", "workspace-other", "odd", ".hidden"):
        (home / folder).mkdir(parents=True)
    (home / "workspace-main/MEMORY.md").write_text("likes tea", encoding="utf-8")
    for ending in (".bak", ".bak.1"):
        (home / f"openclaw.json{ending}").touch()
    report = brought(home, capsys, "--apply")
    assert (state / "workspace/MEMORY.md").read_text("utf-8") == "likes tea"
    left = {row["what"] for row in report["unmapped"]}
    assert left == {"workspace-other", "odd", ".hidden", "2 earlier copies of openclaw.json"}


@pytest.mark.usefixtures("state")
def test_the_report_opens_with_what_will_be_missed_and_counts_what_repeats(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks = {"boot-md": {"enabled": False}, "session-memory": {"enabled": True}, "soul": {}}
    tree = {**CONFIG, "hooks": {"internal": {"entries": hooks}}}
    (old / "openclaw.json").write_text(json.dumps(tree), encoding="utf-8")
    jobs = {"jobs": [{"name": "Brief"}, {"name": "Off", "enabled": False}]}
    (old / "cron/jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    (old / "workspace/skills/weather").mkdir(parents=True)
    (old / "workspace/skills/weather/SKILL.md").touch()
    for number in range(5):
        lines = [*transcript(f"s{number}", "x"), line(type="model_change", id="m", parentId="b")]
        file = old / f"agents/main/sessions/s{number}.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
    assert main(["import", "openclaw", str(old)]) == 0
    shown = capsys.readouterr()
    first = shown.out.split("Would be imported", maxsplit=1)[0].splitlines()
    assert [one.split(":")[0].strip() for one in first if one] == [
        "Not supported here",
        "Channels",
        "Skills",
        "Hooks",
    ]
    assert "whatsapp" in first[1]
    assert "soul" in first[3]
    assert "hooks.internal.entries.session-memory.enabled" in shown.out
    assert shown.err.count("model_change") == 1
    assert "5 model_change" in shown.err
    assert len(shown.err.splitlines()) < 20
    for promise in ("anew;", "approved again", "pair anew", "beside each other"):
        assert promise not in shown.out + shown.err
