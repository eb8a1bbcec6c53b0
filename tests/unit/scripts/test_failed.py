"""Which failed tests may run once more."""

import datetime as dt
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.failed import FINAL, MAX_CHARS, MAX_FAILED, OUTPUTS, entry, keep, refusal
from scripts.requirements import ROOT

PAGE = "tests/e2e/test_page.py::test_it"
KILL = "tests/e2e/test_kills.py::test_it"
RACE = "tests/unit/app/test_races.py::test_it"


def test_the_script_reads_what_a_real_run_left(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "def test_good(): pass\ndef test_bad(): assert 1 == 2, 'SKERRY_SEED=7'\n", encoding="utf-8"
    )
    cache = tmp_path / "cache"
    run = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", "/dev/null"]
    completed = subprocess.run(
        [*run, "--rootdir", str(tmp_path), "-o", f"cache_dir={cache}", str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert completed.returncode == 1
    assert ask(cache) == (0, "test_two.py::test_bad\n")
    said = json.loads((cache / "v" / OUTPUTS).read_bytes())["test_two.py::test_bad"]
    assert said.startswith("AssertionError: SKERRY_SEED=7\nassert 1 == 2")


def test_a_run_without_failures_left_none(tmp_path: Path) -> None:
    assert ask(tmp_path) == (0, "")


def test_too_many_are_refused(tmp_path: Path) -> None:
    store_failures(tmp_path, *(f"{PAGE}[{n}]" for n in range(MAX_FAILED + 1)))
    code, text = ask(tmp_path)
    assert (code, text) == (1, "")


def test_every_file_without_a_second_try_exists() -> None:
    gone = [one for one in FINAL if not list((ROOT / one).parent.glob(f"{Path(one).name}*.py"))]
    assert gone == []


def test_a_second_try_is_five_runs() -> None:
    script = (ROOT / "scripts/test-all.sh").read_text(encoding="utf-8")
    assert 'for _ in 1 2 3 4 5; do .venv/bin/pytest "${alone[@]}"; done' in script
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script, "the first that fails ends it"


@pytest.mark.parametrize("failed", [[KILL], [PAGE, KILL], [RACE]])
def test_what_must_hold_each_time_is_refused(failed: list[str]) -> None:
    assert refusal([PAGE]) == ""
    assert "no second try" in refusal(failed)


def test_what_passed_alone_is_written_with_date_and_seed_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flaky = tmp_path / "flaky.toml"
    keep([], {}, flaky)
    assert capsys.readouterr().out == ""
    keep([PAGE], {PAGE: "assert 1 == 2\nSKERRY_SEED=7"}, flaky)
    keep([RACE], {}, flaky)
    first, second = tomllib.loads(flaky.read_text(encoding="utf-8"))["flaky"]
    assert (first["test"], first["seed"]) == (PAGE, "SKERRY_SEED=7")
    assert first["said"].startswith("assert 1 == 2")
    assert isinstance(first["date"], dt.date)
    assert second["said"] == "nothing"
    texts = capsys.readouterr().out.splitlines()
    assert texts[-2:] == [f"    {one} ({first['date']})" for one in (PAGE, RACE)]
    assert "no issue is resolved" in texts[-3]


@pytest.mark.parametrize(
    ("said", "seed"),
    [
        (
            "@reproduce_failure('6.170.15', b'AEIB=') as a decorator",
            "@reproduce_failure('6.170.15', b'AEIB=')",
        ),
        ("pytest --detangle-replay=dt1-Ab_9= tests/x.py", "dt1-Ab_9="),
        ("assert False", "the same examples as in every run"),
    ],
)
def test_an_entry_says_what_replays_it(said: str, seed: str) -> None:
    text = f"\x00\x7f\ud800 🐚 {said}" + "x" * MAX_CHARS
    (payload,) = tomllib.loads(entry(PAGE, text, "2026-02-07"))["flaky"]
    assert payload["seed"] == seed
    assert payload["said"].startswith("\x00?? 🐚 ")
    assert len(payload["said"]) == MAX_CHARS


def store_failures(cache: Path, *failed: str) -> None:
    file = cache / "v/cache/lastfailed"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")


def ask(cache: Path) -> tuple[int, str]:
    completed = subprocess.run(
        [sys.executable, "-m", "scripts.failed", str(cache)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return completed.returncode, completed.stdout
