"""Which documents belong to the memory."""

from pathlib import Path

import pytest

from skerry.features.memory.reading import NotMemoryError
from skerry.features.memory.tools import MemoryGet
from skerry.model.memory import is_memory
from tests.support.memory import Place, place


async def refused(here: Place, path: str) -> bool:
    told = await here.call(MemoryGet(here.service), {"path": path})
    return told.get("disabled", False) is True and told["text"] == ""


@pytest.mark.requirement("memory-get-refuses")
@pytest.mark.parametrize(
    "path",
    [
        "memory/notes.txt",
        "USER.md",
        "../secret.md",
        "memory/../../secret.md",
        "memory/../USER.md",
        "memory/link.md",
        "linked/secret.md",
        "memory/linked/secret.md",
        "memory/twice.md",
        "memory/folder.md",
        "memory/zero\0.md",
        "qmd/../../secret.md",
        "sessions/../USER.md",
        "/etc/motd.md",
        ".md",
    ],
)
async def test_nothing_outside_the_memory_is_read(tmp_path: Path, path: str) -> None:
    here = place(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret", encoding="utf-8")
    (here.workspace.parent / "secret.md").write_text("secret", encoding="utf-8")
    here.put("USER.md", "secret")
    here.put("memory/notes.txt", "secret")
    (here.workspace / "memory/folder.md").mkdir()
    (here.workspace / "memory/link.md").symlink_to(outside / "secret.md")
    (here.workspace / "linked").symlink_to(outside)
    (here.workspace / "memory/linked").symlink_to(outside)
    (here.workspace / "memory/twice.md").hardlink_to(outside / "secret.md")
    assert await refused(here, path)


async def test_extra_paths_are_read_and_nothing_beside_them(tmp_path: Path) -> None:
    notes, single, beside = tmp_path / "notes", tmp_path / "one.md", tmp_path / "two.md"
    notes.mkdir()
    for file in (notes / "a.md", single, beside):
        file.write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to(notes)
    extra = [str(notes), str(single), "docs", str(tmp_path / "link")]
    here = place(tmp_path, agents={"defaults": {"memorySearch": {"extraPaths": extra}}})
    here.put("docs/b.md", "text")
    get = MemoryGet(here.service)
    for path in (str(notes / "a.md"), str(single), "docs/b.md", "../../notes/a.md"):
        assert (await here.call(get, {"path": path}))["text"] == "text"
    for path in (str(beside), "../../two.md", f"{notes}/../two.md", str(tmp_path / "link/a.md")):
        assert await refused(here, path)


def test_the_files_of_the_memory_are_known_by_their_names() -> None:
    inside = ("MEMORY.md", "memory.md", "memory/2026-11-20.md", "memory/deep/in/a.md")
    outside = ("USER.md", "memory/a.txt", "notes/MEMORY.md", "memory/../USER.md", "memory", ".md")
    assert all(map(is_memory, inside))
    assert not any(map(is_memory, outside))
    assert issubclass(NotMemoryError, Exception)
