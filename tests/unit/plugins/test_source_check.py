"""Which files may become code of the gateway."""

import hashlib
import os
from pathlib import Path

import pytest

from skerry.model.errors import PluginError
from skerry.plugins import source_check
from skerry.plugins.source_check import read_source

CODE = b"def register(api): ...\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tea.py"
    path.write_bytes(CODE)
    path.chmod(0o600)
    return path


def refusal(path: Path, pinned: str | None = None, *workspaces: Path) -> PluginError:
    with pytest.raises(PluginError) as refused:
        read_source(path, pinned, workspaces)
    return refused.value


def test_a_file_of_the_owner_is_read_with_its_hash(file: Path) -> None:
    plugin_source = read_source(file, None, ())
    assert (plugin_source.code, plugin_source.sha256) == (CODE, hashlib.sha256(CODE).hexdigest())


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert refusal(file).remedy == f"Run: chmod go-w {file}"


def test_a_directory_in_which_others_may_put_files_is_refused(file: Path) -> None:
    file.parent.chmod(0o777)
    assert f"chmod go-w {file.parent}" in refusal(file).remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_file_of_somebody_else_is_refused(file: Path) -> None:
    os.chown(file, 12345, 12345)
    assert "another user" in str(refusal(file))


def test_a_link_is_judged_by_what_it_leads_to(file: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    inside = workspace / "evil.py"
    inside.write_bytes(CODE)
    link = tmp_path / "good.py"
    link.symlink_to(inside)
    assert "is in a workspace" in str(refusal(link, None, workspace))
    assert read_source(file, None, (workspace,)).code == CODE


def test_code_in_a_workspace_needs_its_pinned_hash(file: Path) -> None:
    digest = hashlib.sha256(CODE).hexdigest()
    assert digest in refusal(file, None, file.parent).remedy
    assert read_source(file, digest, (file.parent,)).code == CODE


def test_a_pinned_file_that_changed_is_refused_anywhere(file: Path) -> None:
    digest = hashlib.sha256(CODE).hexdigest()
    file.write_bytes(CODE + b"# and more\n")
    assert "has changed" in str(refusal(file, digest))


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in str(refusal(tmp_path / "absent.py"))
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert "is not a regular file" in str(refusal(pipe))
    (tmp_path / "folder.py").mkdir()
    assert refusal(tmp_path / "folder.py").remedy


def test_an_endless_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_check, "MAX_BYTES", 4)
    assert "more than 4 bytes" in str(refusal(file))


def test_a_file_with_a_second_name_needs_its_pinned_hash(file: Path, tmp_path: Path) -> None:
    os.link(file, tmp_path / "other.py")
    assert "another name" in str(refusal(file))
    digest = hashlib.sha256(CODE).hexdigest()
    assert read_source(file, digest, ()).code == CODE


def test_the_pin_of_another_file_is_no_pin_of_this_one(file: Path) -> None:
    other = hashlib.sha256(b"def register(api): print()\n").hexdigest()
    assert "has changed" in str(refusal(file, other))


def test_a_link_that_lies_in_a_workspace_is_refused_wherever_it_leads(
    file: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    link = workspace / "tea.py"
    link.symlink_to(file)
    assert "is in a workspace" in str(refusal(link, None, workspace))


def test_a_link_in_a_directory_that_others_may_write_is_refused(file: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "tea.py").symlink_to(file)
    shared.chmod(0o777)
    assert f"chmod go-w {shared}" in refusal(shared / "tea.py").remedy
    shared.chmod(0o1777)  # in a sticky one nobody can move the owner's link
    assert read_source(shared / "tea.py", None, ()).code == CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a link away")
def test_a_link_of_somebody_else_is_refused(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(file)
    os.lchown(link, 12345, 12345)
    assert "another user" in str(refusal(link))


@pytest.mark.parametrize("swapped", ["tea.py", "."], ids=["the file", "its directory"])
def test_a_link_that_is_put_in_place_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    good, evil = tmp_path / "good", tmp_path / "evil"
    for directory in (good, evil):
        directory.mkdir()
        (directory / "tea.py").write_bytes(CODE)
    check = source_check._check_path

    def swap(path: Path) -> None:
        check(path)
        place = good / swapped
        place.rename(tmp_path / "away")
        place.symlink_to(evil / swapped)

    monkeypatch.setattr(source_check, "_check_path", swap)
    assert "cannot be read" in str(refusal(good / "tea.py"))
