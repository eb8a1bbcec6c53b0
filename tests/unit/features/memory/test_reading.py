"""Which documents belong to the memory."""

from pathlib import Path

import pytest

from skerry.features.memory.reading import NotMemoryError
from skerry.features.memory.tools import MemoryGet
from skerry.model.memory import is_memory
from tests.support.memory import MemoryRig, memory_rig


async def refused(rig: MemoryRig, path: str) -> bool:
    payload = await rig.call(MemoryGet(rig.service), {"path": path})
    return payload.get("disabled", False) is True and payload["text"] == ""


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
    rig = memory_rig(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret", encoding="utf-8")
    (rig.workspace.parent / "secret.md").write_text("secret", encoding="utf-8")
    rig.put("USER.md", "secret")
    rig.put("memory/notes.txt", "secret")
    (rig.workspace / "memory/folder.md").mkdir()
    (rig.workspace / "memory/link.md").symlink_to(outside / "secret.md")
    (rig.workspace / "linked").symlink_to(outside)
    (rig.workspace / "memory/linked").symlink_to(outside)
    (rig.workspace / "memory/twice.md").hardlink_to(outside / "secret.md")
    assert await refused(rig, path)


async def test_extra_paths_are_read_and_nothing_beside_them(tmp_path: Path) -> None:
    notes, single, beside = tmp_path / "notes", tmp_path / "one.md", tmp_path / "two.md"
    notes.mkdir()
    for file in (notes / "a.md", single, beside):
        file.write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to(notes)
    extra = [str(notes), str(single), "docs", str(tmp_path / "link")]
    rig = memory_rig(tmp_path, agents={"defaults": {"memorySearch": {"extraPaths": extra}}})
    rig.put("docs/b.md", "text")
    get = MemoryGet(rig.service)
    for path in (str(notes / "a.md"), str(single), "docs/b.md", "../../notes/a.md"):
        assert (await rig.call(get, {"path": path}))["text"] == "text"
    for path in (str(beside), "../../two.md", f"{notes}/../two.md", str(tmp_path / "link/a.md")):
        assert await refused(rig, path)


def test_the_files_of_the_memory_are_known_by_their_names() -> None:
    inside = ("MEMORY.md", "memory.md", "memory/2026-11-20.md", "memory/deep/in/a.md")
    outside = ("USER.md", "memory/a.txt", "notes/MEMORY.md", "memory/../USER.md", "memory", ".md")
    assert all(map(is_memory, inside))
    assert not any(map(is_memory, outside))
    assert issubclass(NotMemoryError, Exception)
