"""Scheduled jobs of OpenClaw arrive switched off, once, and send nothing where the file says."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main

MORNING = "7d2c5a0e-5a10-4f7e-9f3e-0d1c2b3a4f5e"
FUTURE = "2999-01-01T00:00:00Z"


def job(name: str, schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
    turn = {"kind": "agentTurn", "message": f"do {name}", "allowUnsafeExternalContent": True}
    fields = {"id": name, "name": name, "enabled": True, "schedule": schedule, "payload": turn}
    return fields | more


DAILY = {"kind": "cron", "expr": "0 7 * * *", "tz": "Europe/Berlin"}
HOURLY = {"kind": "every", "everyMs": 3_600_000}
WEBHOOK = {"mode": "webhook", "to": "https://stranger.example/take"}
TEXT = {"kind": "systemEvent", "text": "tea"}
JOBS: list[Any] = [
    job("Morning", DAILY, id=MORNING, delivery=WEBHOOK),
    job(
        "Tides",
        HOURLY,
        enabled=False,
        delivery={"mode": "none"},
        deleteAfterRun="yes",
        description=5,
    ),
    job("Later", {"kind": "at", "atMs": 32_472_144_000_000}, payload=TEXT),
    job("Over", {"kind": "at", "at": "2020-01-01T00:00:00Z"}),
    job("Far", {"kind": "at", "atMs": 10**30}),
    job("Odd", {"kind": "at", "at": 5}),
    job("Strange", DAILY, agentId="nobody"),
    job("Never", {"kind": "cron", "expr": "no"}),
    {"name": "Empty"},
    "nothing",
]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SKERRY_CONFIG_PATH", raising=False)
    home = tmp_path / "openclaw"
    (home / "cron").mkdir(parents=True)
    (home / "openclaw.json").write_text("{}", encoding="utf-8")
    (home / "cron/jobs.json").write_text(json.dumps({"version": 1, "jobs": JOBS}))
    return home


def stored(tmp_path: Path) -> dict[str, tuple[int | None, dict[str, Any]]]:
    with closing(sqlite3.connect(tmp_path / "state/state.sqlite")) as opened:
        rows = opened.execute("SELECT next_at, body FROM cron_job").fetchall()
    return {(body := json.loads(row[1]))["name"]: (row[0], body) for row in rows}


def test_jobs_arrive_switched_off_and_reply_to_nobody_whom_the_file_names(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "openclaw", str(old), "--json"]) == 0
    preview = json.loads(capsys.readouterr().out)
    assert preview["jobs"] == ["Morning", "Tides", "Later"]
    assert not (tmp_path / "state").exists()
    assert main(["import", "openclaw", str(old), "--apply", "--json"]) == 0
    left = {row["what"]: row["why"] for row in json.loads(capsys.readouterr().out)["unmapped"]}
    assert "has passed" in left["cron job Over"]
    assert "nobody" in left["cron job Strange"]
    assert {f"cron job {name}" for name in ("Far", "Odd", "Never", "Empty")} <= left.keys()
    assert "receiver of cron job Morning" in left
    arrived = stored(tmp_path)
    assert arrived.keys() == {"Morning", "Tides", "Later"}
    for next_at, body in arrived.values():
        assert next_at is None, "the scheduler must not see it"
        assert body["enabled"] is False
    assert "stranger" not in json.dumps(arrived)
    assert arrived["Morning"][1]["delivery"] == {"mode": "announce"}
    assert arrived["Tides"][1]["delivery"] == {"mode": "none"}
    assert arrived["Morning"][1]["id"] == MORNING
    assert arrived["Morning"][1]["schedule"] == DAILY
    assert arrived["Later"][1]["payload"] == TEXT


def test_jobs_of_the_state_database_of_2026_9_arrive_before_those_of_the_earlier_file(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = old / "state/openclaw.sqlite"
    file.parent.mkdir()
    stored_job = job("Morning of the database", DAILY, id=MORNING)
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("CREATE TABLE cron_jobs (job_id, job_json, sort_order)")
        rows = [(MORNING, json.dumps(stored_job), 0), ("odd", "no JSON", 1)]
        opened.executemany("INSERT INTO cron_jobs VALUES (?, ?, ?)", rows)
    assert main(["import", "openclaw", str(old), "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0] == "Morning of the database"
    assert stored(tmp_path).keys() == {"Morning of the database", "Tides", "Later"}
    file.write_bytes(b"no database")
    assert main(["import", "openclaw", str(old), "--json"]) == 0
    left = {row["what"]: row["why"] for row in json.loads(capsys.readouterr().out)["unmapped"]}
    assert "cannot be read" in left[str(file)]


def test_a_second_import_changes_no_job_that_is_there(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "openclaw", str(old), "--apply"]) == 0
    shown = capsys.readouterr().out
    assert "Morning, Tides, Later" in shown
    assert "skerry cron enable" in shown
    file = tmp_path / "state/state.sqlite"
    with closing(sqlite3.connect(file)) as opened, opened:
        changed = b'{"name":"Mine"}'
        opened.execute("UPDATE cron_job SET body = ? WHERE job_id = ?", (changed, MORNING))
    assert main(["import", "openclaw", str(old), "--apply"]) == 0
    assert stored(tmp_path).keys() == {"Mine", "Tides", "Later"}
