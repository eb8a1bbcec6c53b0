"""Statements leave the agent's Markdown files; the rest, the modes and shared files stay."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.features.memory import file_eraser
from skerry.features.memory.documents import Stamp
from skerry.features.memory.file_eraser import FileEraser, _lines, without_statements
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.markdown_files import read
from skerry.features.memory.notes import notes
from skerry.model.origin import Origin
from skerry.model.provenance import Provenance, item
from skerry.model.redaction import Redaction

REDACTION = Redaction(["zebra 4711"])
SAID = Provenance(Origin.OWNER, "agent:main:main", "2026-11-22T08:24Z")
PARTS = st.sampled_from(
    ["Zebra  4711", "zebra, 4711.", "ZEBRA-4711", "tea", "- ", "\n", "\r\n", ". ", "# H", " ", "47"]
)


def note(text: str) -> str:
    return "\n".join(item(text, SAID)) + "\n"


def test_a_note_goes_with_what_is_known_of_it() -> None:
    content = f"# Codes\n\n{note('My locker: zebra 4711.')}{note('It rains.')}"
    assert without_statements(content, REDACTION) == f"# Codes\n\n{note('It rains.')}"


def test_a_note_of_one_line_goes_whole_and_the_preview_shows_it() -> None:
    content = f"{note('The dentist is Dr. Maro. The door is green.')}{note('It rains.')}"
    dentist = Redaction(["dentist"])
    assert without_statements(content, dentist) == note("It rains.")
    (shown,) = _lines("MEMORY.md", content, dentist)
    assert (shown.line, shown.text) == (1, "The dentist is Dr. Maro. The door is green.")


def test_a_note_of_more_lines_is_a_note_still_and_its_id_tells_nothing_of_what_went() -> None:
    content = note("Tea is good.\nIt is zebra 4711.")
    (left,) = notes(without_statements(content, REDACTION))
    assert (left.text, left.provenance, left.is_edited) == ("Tea is good.", SAID, False)
    (shown,) = _lines("MEMORY.md", f"Text.\n{content}", REDACTION)
    assert (shown.line, shown.text) == (3, "It is zebra 4711.")


@given(parts=st.lists(PARTS, max_size=30), in_note=st.booleans())
def test_nothing_of_it_is_left_and_what_has_none_is_as_it_was(
    *, parts: list[str], in_note: bool
) -> None:
    text = " ".join(parts)
    content = note(text.replace("\n", " ").replace("\r", " ").strip() or "x") if in_note else text
    left = without_statements(content, REDACTION)
    assert not REDACTION.holds(left)
    if not REDACTION.holds(content):
        assert left == content
    assert without_statements(left, REDACTION) == left


def papers(tmp_path: Path, *, extra: bool = False) -> FileEraser:
    workspace, shared = tmp_path / "workspace", tmp_path / "shared"
    (workspace / "memory").mkdir(parents=True)
    shared.mkdir()
    (workspace / "MEMORY.md").write_text("Tea.\nA zebra 4711.\n")
    (workspace / "MEMORY.md").chmod(0o640)
    (workspace / "USER.md").write_text("Zebra 4711!\n")
    (workspace / "other.md").write_text("zebra 4711\n")
    (shared / "team.md").write_text("Zebra 4711\n")
    return FileEraser(MemoryPaths(workspace, (shared,)), ("USER.md",), None, extra)


def test_files_of_the_agent_are_cleaned_and_extra_paths_are_named(tmp_path: Path) -> None:
    paper = papers(tmp_path)
    cleaning = paper.find(REDACTION)
    assert [(line.path, line.line) for line in cleaning.lines] == [("MEMORY.md", 2), ("USER.md", 1)]
    done = paper.clean(REDACTION)
    assert done.lines == cleaning.lines
    ((path, reason),) = done.remaining
    assert path == str(tmp_path / "shared/team.md")
    assert "extra path" in reason
    memory = tmp_path / "workspace/MEMORY.md"
    assert (memory.read_text(), memory.stat().st_mode & 0o777) == ("Tea.\n", 0o640)
    assert (tmp_path / "shared/team.md").read_text() == "Zebra 4711\n"
    assert (tmp_path / "workspace/other.md").read_text() == "zebra 4711\n"


def test_extra_paths_are_cleaned_when_the_owner_says_so(tmp_path: Path) -> None:
    cleaning = papers(tmp_path, extra=True).clean(REDACTION)
    assert (len(cleaning.lines), cleaning.remaining) == (3, [])
    assert (tmp_path / "shared/team.md").read_text() == ""


@pytest.mark.parametrize("kind", ["read-only", "two names"])
def test_a_file_that_cannot_be_changed_is_named(tmp_path: Path, kind: str) -> None:
    paper = papers(tmp_path)
    file = tmp_path / "workspace/memory/a.md"
    file.write_text("zebra 4711\n")
    if kind == "read-only":
        file.chmod(0o400)
    else:
        (tmp_path / "b").hardlink_to(file)
    assert "memory/a.md" in dict(paper.clean(REDACTION).remaining)
    assert file.read_text() == "zebra 4711\n"


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("zebra 4711", "Zebra\n4711"),
        ("zebra 4711", "A \N{LATIN SMALL LETTER LONG S}ign: zebra 4711"),
        ("\N{LATIN SMALL LETTER LONG S}un 4711", "SUN 4711"),
        ("Stra\N{LATIN SMALL LETTER SHARP S}e 4711", "Stra\N{LATIN SMALL LETTER SHARP S}e 4711"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "CAFE\N{COMBINING ACUTE ACCENT}"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_quick_look_passes_over_no_file_that_has_it(
    tmp_path: Path, phrase: str, text: str, encoding: str
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "a.md").write_bytes(f"Tea.\n{text}\n".encode(encoding))
    (folder / "b.md").write_text("Milk.\n")
    redaction = Redaction([phrase])
    (forgotten_line,) = FileEraser(MemoryPaths(tmp_path), (), None).find(redaction).lines
    assert forgotten_line.path == "memory/a.md"


def test_of_files_without_the_word_only_the_bytes_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.md").write_text("Tea.\n" + "zebra 4711\n" * (number == 3))
    (folder / "null.md").write_bytes(b"zebra\0 4711")
    looked: list[str] = []

    def counted(places: MemoryPaths, path: str, now: int) -> tuple[str, Stamp, str]:
        looked.append(path)
        return read(places, path, now)

    monkeypatch.setattr(file_eraser, "read", counted)
    cleaning = FileEraser(MemoryPaths(tmp_path), (), None).clean(REDACTION)
    assert sorted(looked) == ["memory/3.md", "memory/null.md"]
    assert [path for path, _ in cleaning.remaining] == ["memory/null.md"], (
        "what is no text is named"
    )
