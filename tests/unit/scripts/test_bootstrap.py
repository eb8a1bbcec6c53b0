"""`scripts/bootstrap.py` installs again exactly when something changed, and shows its steps."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.bootstrap import LOCKED, ROOT, InstallError, Progress, is_current, locked, wanted

WANT = {
    "profile": "user",
    "project": "hash",
    "locked": "hash",
    "folder": "/srv/skerry",
    "python": "3.11",
}


@pytest.mark.parametrize(
    ("have", "current"),
    [
        pytest.param(WANT, True, id="the same"),
        pytest.param({**WANT, "profile": "dev"}, True, id="a developer's has more"),
        pytest.param({**WANT, "project": "other"}, False, id="pyproject changed"),
        pytest.param({**WANT, "locked": "other"}, False, id="a locked version changed"),
        pytest.param({**WANT, "folder": "/srv/moved"}, False, id="folder moved"),
        pytest.param({**WANT, "python": "3.12"}, False, id="another Python"),
        pytest.param({}, False, id="never finished"),
    ],
)
def test_it_installs_again_when_something_changed(have: dict[str, str], current: bool) -> None:  # noqa: FBT001 - a parameter of the table
    assert is_current(have, WANT) is current


def test_a_user_s_environment_does_not_serve_a_developer() -> None:
    assert not is_current(WANT, {**WANT, "profile": "dev"})


def test_the_stamp_depends_on_the_project_file() -> None:
    assert len(wanted("user")["project"]) == 64


FILES = sorted(path.stem for path in LOCKED.glob("*.txt"))


def pins(name: str) -> list[tuple[str, str]]:
    """Reads the packages of a lock file and their versions, which may differ by Python version."""
    text = (LOCKED / f"{name}.txt").read_text(encoding="utf-8")
    return re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", text, re.MULTILINE)


def requirements(*extras: str) -> list[Requirement]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    listed = list(project["dependencies"])
    for extra in extras:
        listed += project["optional-dependencies"][extra]
    return [Requirement(one) for one in listed]


def test_each_file_that_an_installation_reads_is_there() -> None:
    assert FILES == ["demo", "dev", "local", "memory", "user"]


@pytest.mark.parametrize("name", FILES)
def test_a_lock_file_has_a_hash_for_each_package(name: str) -> None:
    text = (LOCKED / f"{name}.txt").read_text(encoding="utf-8")
    entries = text.replace("\\\n", " ").strip().splitlines()
    assert len(entries) == len(pins(name)) > 0
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("user", []),
        ("dev", ["memory", "static", "dev"]),
    ],
)
def test_what_the_project_asks_for_is_locked(name: str, extras: list[str]) -> None:
    for requirement in requirements(*extras):
        have = [
            version
            for package, version in pins(name)
            if package == canonicalize_name(requirement.name)
        ]
        assert have, requirement
        assert all(requirement.specifier.contains(version) for version in have), requirement


def test_a_developer_tests_the_versions_that_a_user_gets() -> None:
    assert set(pins("user")) <= set(pins("dev"))
    assert set(pins("memory")) <= set(pins("dev"))


def test_only_wheels_of_a_known_hash_are_installed() -> None:
    options = locked("user")
    assert options[:3] == ["--require-hashes", "--only-binary", ":all:"]
    assert options[-1] == str(LOCKED / "user.txt")


def test_a_step_says_its_number_and_keeps_its_output_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "install.log"
    Progress(4, log, live=False).run(2, "Greeting", [sys.executable, "-c", "print('hello')"])
    assert capsys.readouterr().out.startswith("[2/4] Greeting ...\n[2/4] Greeting: done after ")
    assert log.read_text(encoding="utf-8").endswith("hello\n")


def test_a_step_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(4, tmp_path / "install.log", live=True)
    with pytest.raises(InstallError, match="Breaking"):
        progress.run(3, "Breaking", [sys.executable, "-c", "raise SystemExit(3)"])
    assert "\r[3/4] Breaking: failed after " in capsys.readouterr().out
