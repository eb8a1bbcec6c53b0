"""What was seen and could not be brought in is seen again; a glance at rest looks at no file."""

from pathlib import Path

import pytest

from skerry.features.memory import file_changes as of_looks
from skerry.features.memory.file_changes import (
    LINUX,
    WATCHED,
    FileChangeDetector,
    FileChangeTracker,
)
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.markdown_files import FileScan, scan


def test_what_was_not_brought_in_is_looked_at_again(tmp_path: Path) -> None:
    folder, looking, places = tmp_path / "memory", FileChangeTracker(), MemoryPaths(tmp_path)
    folder.mkdir()
    for number in range(WATCHED + 1):
        (folder / f"{number}.md").write_text("Tea.\n")
    result = looking.look(places)
    assert result is not None
    looking.record_all(dict(result.scan.stamps), [])
    assert looking.look(places) is None
    (folder / "new").mkdir()
    (folder / "new" / "boat.md").write_text("The boat is blue.\n")
    for _ in range(2):  # the disk is full, say: nothing says that it was brought in
        result = looking.look(places)
        assert result is not None
        assert "memory/new/boat.md" in result.scan.stamps
    looking.close()


@pytest.mark.skipif(not LINUX, reason="inotify is of Linux")
def test_a_check_of_a_large_unchanged_tree_reads_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, extra = tmp_path / "memory", tmp_path / "aside" / "one.md"
    for path in (folder, extra.parent):
        path.mkdir()
    extra.write_text("Tea.\n")
    for number in range(WATCHED + 1):
        (folder / f"{number}.md").write_text("Tea.\n")
    looks: list[MemoryPaths] = []

    def counted(places: MemoryPaths) -> FileScan:
        looks.append(places)
        return scan(places)

    monkeypatch.setattr(of_looks, "scan", counted)
    glance, places = FileChangeDetector(), MemoryPaths(tmp_path, (extra,))
    first = glance.look(places)
    looks.clear()
    assert glance.look(places) == first
    assert looks == []
    for changed in (folder / "7.md", extra):
        changed.write_text("Coffee, and milk.\n")
        second = glance.look(places)
        assert second != first
        assert glance.look(places) == second
        first = second
    assert glance.look(MemoryPaths(tmp_path)) != first, "another setting"
    glance.close()
    assert glance.look(places) == first
    glance.close()
