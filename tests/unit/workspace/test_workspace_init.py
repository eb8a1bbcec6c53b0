"""The files of a new workspace, and the files that are not changed."""

from pathlib import Path

import pytest

from skerry.workspace import workspace_init
from skerry.workspace.prompt_files import BOOTSTRAP
from skerry.workspace.workspace_init import seed

FILES = {"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", BOOTSTRAP}


def names(workspace: Path) -> set[str]:
    return {path.name for path in workspace.iterdir()}


@pytest.mark.requirement("agent-lifecycle-bootstrap")
@pytest.mark.requirement("workspace-layout")
def test_a_new_workspace_gets_its_files_and_directories(tmp_path: Path) -> None:
    workspace = tmp_path / "a" / "workspace"
    assert set(seed(workspace)) == FILES
    assert names(workspace) == {*FILES, "memory", "skills", "canvas"}
    assert workspace.stat().st_mode & 0o777 == 0o700
    assert (workspace / "SOUL.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("identity-soul-template")
def test_the_soul_begins_with_five_principles(tmp_path: Path) -> None:
    seed(tmp_path)
    text = (tmp_path / "SOUL.md").read_text(encoding="utf-8")
    principles = [line for line in text.splitlines() if line.startswith("- **")]
    begins = [line.removeprefix("- **").partition("**")[0] for line in principles]
    assert begins == [
        "Help, without filler.",
        "Hold opinions.",
        "Look before you ask.",
        "Earn trust by competence.",
        "Respect boundaries.",
    ]


def test_what_a_person_has_edited_or_deleted_stays_so(tmp_path: Path) -> None:
    seed(tmp_path)
    (tmp_path / BOOTSTRAP).unlink()
    (tmp_path / "TOOLS.md").unlink()
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    assert seed(tmp_path) == []
    assert not (tmp_path / "TOOLS.md").exists()
    assert (tmp_path / "SOUL.md").read_text(encoding="utf-8") == "mine"


def test_a_workspace_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("tea", encoding="utf-8")
    assert seed(tmp_path) == []
    assert names(tmp_path) == {"MEMORY.md"}


def test_a_directory_with_other_files_is_not_greeted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert set(seed(tmp_path)) == FILES - {BOOTSTRAP}


def test_a_first_start_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    seed(tmp_path)
    (tmp_path / "AGENTS.md").unlink()
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    assert seed(tmp_path) == ["AGENTS.md"]
    assert (tmp_path / "SOUL.md").read_text(encoding="utf-8") == "mine"


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert seed(tmp_path / "workspace", skip=True) == []
    assert names(tmp_path / "workspace") == set()


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target"
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / BOOTSTRAP).write_text("begin", encoding="utf-8")
    (workspace / "SOUL.md").symlink_to(target)
    seed(workspace)
    assert not target.exists()


def test_every_template_is_known_as_written_by_us() -> None:
    folder = Path(workspace_init.__file__).parent / "templates"
    for file in sorted(folder.iterdir()):
        assert workspace_init.is_untouched(file.read_bytes()), (
            f"add the digest of {file.name} to TEMPLATE_DIGESTS"
        )
    assert not workspace_init.is_untouched(b"mine")
