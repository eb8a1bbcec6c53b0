"""Which failed tests may run once more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.failed import FINAL, MOST, refusal
from scripts.requirements import ROOT

PAGE = "tests/e2e/test_page.py::test_it"
KILL = "tests/e2e/test_kills.py::test_it"
RACE = "tests/unit/app/test_races.py::test_it"


def test_the_script_prints_what_a_real_run_left(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "def test_good(): pass\ndef test_bad(): assert False\n", encoding="utf-8"
    )
    cache = tmp_path / "cache"
    run = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*run, "-o", f"cache_dir={cache}", str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert ask(cache) == (0, "test_two.py::test_bad\n")


def test_a_run_without_failures_left_none(tmp_path: Path) -> None:
    assert ask(tmp_path) == (0, "")


def test_too_many_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, *(f"{PAGE}[{n}]" for n in range(MOST + 1)))
    code, said = ask(tmp_path)
    assert (code, said) == (1, "")


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


def keep(cache: Path, *failed: str) -> None:
    file = cache / "v/cache/lastfailed"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")


def ask(cache: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.failed", str(cache)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout
