"""`scripts/setup.sh` finds a Python that can install Skerry, or says what to install."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts.requirements import ROOT

OLD = "3.8.18"
FITTING = "3.12.1"


def machine(folder: Path, pythons: Mapping[str, str]) -> Path:
    """Makes a folder of programs: those of the shell, and a Python for each name."""
    programs = folder / "bin"
    programs.mkdir()
    for program in ("sh", "dirname", "cat"):
        (programs / program).symlink_to(str(shutil.which(program)))
    for name, script in pythons.items():
        path = programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    return programs


def fake(version: str, *, fits: bool = True, complete: bool = True) -> str:
    """Returns a program that answers the questions of the script and prints its arguments."""
    return f"""case "$2" in
        *version_info*print*|*print*version_info*) echo {version};;
        *sys.exit*) exit {0 if fits else 1};;
        *ensurepip*) exit {0 if complete else 1};;
        *) echo "{version} runs $*";;
    esac"""


def run(folder: Path, programs: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    scripts = folder / "scripts"
    shutil.copytree(ROOT / "scripts", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    return subprocess.run(
        [scripts / "setup.sh", "user"],
        env={"PATH": str(programs), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_newest_usable_python_installs(tmp_path: Path) -> None:
    programs = machine(
        tmp_path,
        {"python3.13": "exit 127", "python3.12": fake(FITTING), "python3": fake(OLD, fits=False)},
    )
    ran = run(tmp_path, programs)
    assert (ran.returncode, ran.stdout) == (0, f"{FITTING} runs scripts/bootstrap.py user\n")


def test_a_whole_python_is_preferred_to_a_newer_one_without_ensurepip(tmp_path: Path) -> None:
    programs = machine(
        tmp_path,
        {"python3.13": fake("3.13.0", complete=False), "python3.11": fake("3.11.2")},
    )
    assert run(tmp_path, programs).stdout.startswith("3.11.2 runs")


def test_without_ensurepip_it_names_the_package(tmp_path: Path) -> None:
    programs = machine(tmp_path, {"python3": fake(FITTING, complete=False)})
    ran = run(tmp_path, programs)
    assert ran.returncode == 1
    assert "sudo apt-get install python3.12-venv\n" in ran.stderr


def test_an_old_python_is_named_with_what_to_install(tmp_path: Path) -> None:
    programs = machine(tmp_path, {"python3": fake(OLD, fits=False)})
    ran = run(tmp_path, programs)
    assert ran.returncode == 1
    assert f"needs Python 3.11 or newer. Found: python3 ({OLD})\n" in ran.stderr
    assert "sudo apt-get install python3.11 python3.11-venv\n" in ran.stderr


def test_without_any_python_it_says_so(tmp_path: Path) -> None:
    ran = run(tmp_path, machine(tmp_path, {}))
    assert ran.returncode == 1
    assert "sudo apt-get install python3 python3-venv\n" in ran.stderr


def test_a_named_python_is_the_only_one_tried(tmp_path: Path) -> None:
    programs = machine(tmp_path, {"python3": fake(FITTING), "other": fake("3.11.9")})
    assert run(tmp_path, programs, PYTHON="other").stdout.startswith("3.11.9 runs")


def test_the_questions_are_valid_python() -> None:
    """The fakes answer them without looking; here the real interpreter does."""
    text = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    for name in ("fitting", "complete"):
        question = text.split(f"{name}='", 1)[1].split("'", 1)[0]
        subprocess.run([sys.executable, "-c", question], check=True, timeout=60)
