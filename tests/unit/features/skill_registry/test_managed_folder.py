"""Installing skills as a whole: the state after a kill, and its repair by the next command."""

from pathlib import Path

import pytest

from skerry.features.skill_registry import managed_folder
from skerry.features.skill_registry.content import content_hash, read_folder
from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.lock_file import LockedSkill, read_lock, write_lock
from skerry.features.skill_registry.managed_folder import ManagedSkills, opened

OLD = {"SKILL.md": b"old", "docs/a.md": b"a"}
NEW = {"SKILL.md": b"new"}


class KilledError(BaseException):
    """Ends a command where the process would be killed."""


def entry(version: str, files: dict[str, bytes]) -> LockedSkill:
    return LockedSkill(version, content_hash(files), "http://127.0.0.1", 1, "demo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder of managed skills with version 1 of `demo`."""
    root = tmp_path / "skills"
    with opened(root) as skills:
        skills.put("demo", OLD, entry("1", OLD))
    return root


def test_a_skill_is_replaced_as_a_whole(folder: Path) -> None:
    with opened(folder) as skills:
        assert read_folder(folder / "demo") == OLD
        skills.put("demo", NEW, entry("2", NEW))
    assert read_folder(folder / "demo") == NEW
    assert read_lock(folder)["demo"] == entry("2", NEW)
    assert sorted(path.name for path in folder.iterdir()) == [".lock.json", "demo"]
    assert [
        (folder / "demo").stat().st_mode & 0o777,
        (folder / "demo/SKILL.md").stat().st_mode,
    ] == [
        0o700,
        0o100600,
    ]


@pytest.mark.parametrize("point", ["_write", "write_lock", "exchange", "_sync"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_leaves_one_of_the_two_versions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, point: str, moment: str
) -> None:
    work = getattr(managed_folder, point)

    def killed(*arguments: object) -> None:
        if moment == "after":
            work(*arguments)
        raise KilledError

    with monkeypatch.context() as patch, opened(folder) as skills:
        patch.setattr(managed_folder, point, killed)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(KilledError):
            skills.put("demo", NEW, entry("2", NEW))
    installed = read_folder(folder / "demo")
    assert installed in (OLD, NEW)
    with opened(folder) as skills:
        version = "1" if installed == OLD else "2"
        assert skills.locked == {"demo": entry(version, installed)}
        assert not skills.is_changed("demo")
    assert sorted(path.name for path in folder.iterdir()) == [".lock.json", "demo"]


def test_a_file_system_that_cannot_exchange_is_repaired_after_a_kill(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managed_folder, "_exchanged", lambda *_: False)
    with opened(folder) as skills:
        skills.put("demo", NEW, entry("2", NEW))
    assert read_folder(folder / "demo") == NEW
    (folder / "demo").rename(folder / ".old-demo")
    with opened(folder) as skills:
        assert read_folder(folder / "demo") == NEW
        assert skills.locked["demo"].version == "2"


def test_a_first_installation_that_was_killed_is_not_listed(tmp_path: Path) -> None:
    with opened(tmp_path) as skills:
        write_lock(tmp_path, {"demo": entry("1", OLD)})
        (tmp_path / ".new-demo-1").mkdir()
        assert skills.locked == {}
    with opened(tmp_path) as skills:
        assert skills.locked == {}
    assert read_lock(tmp_path) == {}


def test_changes_are_detected_and_hidden_files_do_not_count(folder: Path) -> None:
    with opened(folder) as skills:
        (folder / "demo/.notes").write_text("mine")
        assert not skills.is_changed("demo")
        (folder / "demo/docs/a.md").write_text("changed")
        assert skills.is_changed("demo")


def test_a_folder_of_the_owner_is_never_replaced(folder: Path) -> None:
    (folder / "mine").mkdir()
    with opened(folder) as skills, pytest.raises(SkillError, match="no registry installed it"):
        skills.put("mine", NEW, entry("1", NEW))
    assert list((folder / "mine").iterdir()) == []


def test_a_removed_skill_is_gone_with_its_entry(folder: Path) -> None:
    with opened(folder) as skills:
        skills.remove("demo")
    assert read_lock(folder) == {}
    assert [path.name for path in folder.iterdir()] == [".lock.json"]


def test_links_in_an_installed_skill_are_refused(folder: Path) -> None:
    (folder / "demo/link").symlink_to("/etc/passwd")
    with pytest.raises(SkillError, match="is a link"):
        read_folder(folder / "demo")


def test_a_damaged_lock_file_changes_nothing(folder: Path) -> None:
    (folder / ".lock.json").write_text("{")
    with pytest.raises(SkillError, match="cannot be read"):
        ManagedSkills(folder)
    assert read_folder(folder / "demo") == OLD
