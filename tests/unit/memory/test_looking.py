"""What was seen and could not be brought in is seen again."""

from pathlib import Path

from skerry.memory.files import Places
from skerry.memory.looking import WATCHED, Looking


def test_what_was_not_brought_in_is_looked_at_again(tmp_path: Path) -> None:
    folder, looking, places = tmp_path / "memory", Looking(), Places(tmp_path)
    folder.mkdir()
    for number in range(WATCHED + 1):
        (folder / f"{number}.md").write_text("Tea.\n")
    found = looking.look(places)
    assert found is not None
    looking.seen_all(dict(found.scan.found), [])
    assert looking.look(places) is None
    (folder / "new").mkdir()
    (folder / "new" / "boat.md").write_text("The boat is blue.\n")
    for _ in range(2):  # the disk is full, say: nothing says that it was brought in
        found = looking.look(places)
        assert found is not None
        assert "memory/new/boat.md" in found.scan.found
    looking.close()
