"""`skerry update check`: against a real git origin, an index that answers, and no network."""

import json
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from skerry import __version__
from skerry.features.update import cli_run as update


def git(*arguments: str, cwd: Path) -> str:
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    completed = subprocess.run(
        ["git", *identity, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return completed.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    root = tmp_path / "origin"
    root.mkdir()
    git("init", "--quiet", cwd=root)
    git("commit", "--quiet", "--allow-empty", "-m", "one", cwd=root)
    return root


@pytest.fixture
def copy(origin: Path, tmp_path: Path) -> Path:
    git("clone", "--quiet", str(origin), "copy", cwd=tmp_path)
    return tmp_path / "copy"


def test_a_copy_with_everything_is_the_newest(copy: Path) -> None:
    assert update.check_source(copy).newer is False


def test_a_copy_with_commits_of_its_own_is_the_newest(copy: Path) -> None:
    git("commit", "--quiet", "--allow-empty", "-m", "mine", cwd=copy)
    assert update.check_source(copy).newer is False


def test_a_commit_that_the_copy_has_not_is_newer(copy: Path, origin: Path) -> None:
    git("commit", "--quiet", "--allow-empty", "-m", "two", cwd=origin)
    found = update.check_source(copy)
    assert found.newer is True
    assert found.available == f"commit {git('rev-parse', 'HEAD', cwd=origin)[:12]}"
    assert str(copy) in found.remedy


def test_an_origin_that_is_gone_is_no_failure(copy: Path, origin: Path) -> None:
    origin.rename(origin.with_name("gone"))
    found = update.check_source(copy)
    assert found.newer is None
    assert found.reason.startswith("git: fatal:")


@pytest.mark.parametrize(
    ("printed", "newer"),
    [
        ("skerry (9.9.9)\\nAvailable versions: 9.9.9, 0.1.0\\n  LATEST:    9.9.9", True),
        (f"skerry ({__version__})\\nAvailable versions: {__version__}", False),
        ("nonsense", None),
    ],
)
def test_an_index_is_read(printed: str, newer: bool | None) -> None:  # noqa: FBT001 - a table
    found = update.check_index([sys.executable, "-c", f"print('{printed}')"])
    assert found.newer is newer


def test_an_index_that_does_not_answer_is_no_failure() -> None:
    found = update.check_index([sys.executable, "-c", "import sys; sys.exit('ERROR: offline')"])
    assert (found.newer, found.reason.endswith("ERROR: offline")) == (None, True)


@pytest.mark.parametrize(
    ("record", "is_source"),
    [(None, False), ({"url": "https://example.org/x", "vcs_info": {}}, False), ("here", True)],
)
def test_only_an_installation_from_a_working_copy_asks_git(
    copy: Path, tmp_path: Path, record: object, *, is_source: bool
) -> None:
    info = tmp_path / "skerry-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: skerry\nVersion: 0\n")
    if record == "here":
        record = {"url": copy.as_uri(), "dir_info": {"editable": True}}
    if record is not None:
        (info / "direct_url.json").write_text(json.dumps(record))
    path = update.working_copy(Distribution.at(info))
    assert path == (copy if is_source else None)
