"""The built-in memory: files go in, answers come out, and damage mends itself."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.file_eraser import FileEraser
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.markdown_files import MAX_BYTES
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryMode, MemoryQuestion
from skerry.model.redaction import Redaction


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    return folder


@pytest.fixture
def memory(tmp_path: Path, workspace: Path) -> Iterator[BuiltinMemory]:
    index = Index(
        tmp_path / "memory" / "main.sqlite", IndexSettings(MemoryPaths(workspace)), SystemClock()
    )
    made = BuiltinMemory(AgentId("main"), index, SystemClock())
    yield made
    made.close()


async def paths(memory: BuiltinMemory, text: str) -> list[str]:
    return [hit.path for hit in (await memory.search(MemoryQuestion(text))).hits]


async def test_what_a_file_says_is_found_with_its_lines(
    memory: BuiltinMemory, workspace: Path
) -> None:
    (workspace / "MEMORY.md").write_text("# Facts\n\nThe cat is called Miso.\n")
    answer = await memory.search(MemoryQuestion("What is the cat called?"))
    (hit,) = answer.hits
    assert (hit.path, hit.start_line, hit.end_line) == ("MEMORY.md", 1, 3)
    assert "Miso" in hit.text
    assert (answer.backend, answer.mode) == ("builtin", MemoryMode.TEXT)


async def test_weaker_hits_come_with_one_that_answers_and_not_without_it(
    memory: BuiltinMemory, workspace: Path
) -> None:
    (workspace / "memory.md").write_text("The key of the shed hangs behind the clock.\n")
    (workspace / "memory" / "boat.md").write_text("The boat has a lamp, an anchor and a clock.\n")
    question = MemoryQuestion(
        "Does the key of the shed hang behind the clock?", sufficient_score=0.7
    )
    good, weak = (await memory.search(question)).hits
    assert good.score >= 0.7 > weak.score
    (workspace / "memory.md").unlink()
    only = MemoryQuestion(question.text)
    assert [hit.path for hit in (await memory.search(only)).hits] == ["memory/boat.md"]
    assert (await memory.search(MemoryQuestion(question.text, sufficient_score=0.99))).hits == []


async def test_a_file_edited_by_hand_is_found_by_the_next_search(
    memory: BuiltinMemory, workspace: Path
) -> None:
    note = workspace / "memory.md"
    note.write_text("The boat is blue.\n")
    assert await paths(memory, "boat") == ["memory.md"]
    note.write_text("The ship is grey.\n")
    assert await paths(memory, "boat") == []
    assert await paths(memory, "ship") == ["memory.md"]


@pytest.mark.requirement("memory-dirty-marking")
async def test_what_a_watch_noticed_is_told_until_it_is_indexed(
    memory: BuiltinMemory, workspace: Path
) -> None:
    note = workspace / "memory.md"
    note.write_text("The boat is blue.\n")
    await memory.sync()
    assert not memory.dirty
    note.write_text("The ship is grey.\n")
    memory.touch()
    assert memory.dirty
    await memory.sync()
    assert not memory.dirty
    assert await paths(memory, "ship") == ["memory.md"]


async def test_an_edit_that_keeps_size_and_time_is_seen(
    memory: BuiltinMemory, workspace: Path
) -> None:
    note = workspace / "memory.md"
    note.write_text("The boat is blue.\n")
    before = note.stat()
    assert await paths(memory, "boat") == ["memory.md"]
    note.write_text("The goat is blue.\n")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await paths(memory, "goat") == ["memory.md"]


async def test_deleted_and_moved_files_are_followed(memory: BuiltinMemory, workspace: Path) -> None:
    old, new = workspace / "memory" / "boats.md", workspace / "memory" / "ships.md"
    old.write_text("The boat is blue.\n")
    (workspace / "memory" / "2026-05-08.md").write_text("We painted the boat.\n")
    assert sorted(await paths(memory, "boat")) == ["memory/2026-05-08.md", "memory/boats.md"]
    old.rename(new)
    (workspace / "memory" / "2026-05-08.md").unlink()
    assert await paths(memory, "boat") == ["memory/ships.md"]


async def test_a_bad_file_is_named_and_stops_no_other(
    memory: BuiltinMemory, workspace: Path
) -> None:
    (workspace / "memory" / "binary.md").write_bytes(b"a\0b")
    (workspace / "memory" / "half.md").write_bytes(b"\xff\xfea")
    (workspace / "memory" / "odd.md").write_bytes(b"\xff\x01")
    (workspace / "memory" / "large.md").write_bytes(b"x" * (MAX_BYTES + 1))
    (workspace / "memory" / "good.md").write_text("The boat is blue.\n")
    for _ in range(2):
        report = await memory.sync()
        assert [path for path, _ in report.failed] == [
            "memory/binary.md",
            "memory/half.md",
            "memory/large.md",
            "memory/odd.md",
        ]
    assert await paths(memory, "boat") == ["memory/good.md"]
    assert len((await memory.status()).notes) == 4


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
async def test_other_encodings_are_read_and_names_in_capitals(
    memory: BuiltinMemory, workspace: Path, encoding: str
) -> None:
    (workspace / "memory" / "GRUSS.MD").write_bytes("Grüße an Käthe.\n".encode(encoding))
    (hit,) = (await memory.search(MemoryQuestion("Grüße"))).hits
    assert (hit.path, hit.text) == ("memory/GRUSS.MD", "Grüße an Käthe.")
    papers = FileEraser(MemoryPaths(workspace), (), None)
    assert papers.clean(Redaction(["Käthe"])).remaining == []
    (workspace / "memory" / "GRUSS.MD").unlink()
    (workspace / "memory" / "two.md").write_bytes("Grüße. Hallo Käthe!\n".encode(encoding))
    papers.clean(Redaction(["Käthe"]))
    assert (workspace / "memory" / "two.md").read_bytes() == "Grüße.\n".encode(encoding).replace(
        b"\xef\xbb\xbf", b""
    )


async def test_the_encoding_of_files_that_are_no_utf_8_is_told_while_they_are(
    memory: BuiltinMemory, workspace: Path
) -> None:
    old, new = workspace / "memory" / "old.md", workspace / "memory" / "new.md"
    old.write_bytes("Grüße an Käthe.\n".encode("cp1252"))
    new.write_bytes("Grüße an Jürgen.\n".encode("utf-16"))
    await memory.sync()
    told = {
        memory_file.path: memory_file.encoding
        for memory_file in await memory.listing()
        if memory_file.encoding
    }
    assert told == {"memory/old.md": "Windows-1252", "memory/new.md": "UTF-16"}
    (note,) = (await memory.status()).notes
    assert note.startswith("Not UTF-8: memory/new.md as UTF-16, memory/old.md as Windows-1252. ")
    old.write_text("Grüße an Käthe.\n", encoding="utf-8")
    new.rename(workspace / "memory" / "moved.md")
    await memory.sync()
    told = {
        memory_file.path: memory_file.encoding
        for memory_file in await memory.listing()
        if memory_file.encoding
    }
    assert told == {"memory/moved.md": "UTF-16"}
    (workspace / "memory" / "moved.md").unlink()
    await memory.sync()
    assert (await memory.status()).notes == ()


async def test_links_are_not_followed(
    memory: BuiltinMemory, workspace: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("The boat is red.\n")
    (workspace / "memory" / "link.md").symlink_to(secret)
    (workspace / "memory" / "folder").symlink_to(tmp_path)
    (workspace / "memory" / "gone.txt").symlink_to(tmp_path / "gone")
    assert await paths(memory, "boat") == []
    report = await memory.sync()
    assert [path for path, _ in report.failed] == ["memory/folder", "memory/link.md"]
    notes = (await memory.status()).notes
    assert len(notes) == 2
    assert "\n".join(notes).count(f"memory/link.md: it is a link to {secret}, which is not") == 1


async def test_a_damaged_index_is_rebuilt_and_says_so(
    memory: BuiltinMemory, workspace: Path
) -> None:
    (workspace / "memory.md").write_text("The boat is blue.\n")
    assert await paths(memory, "boat") == ["memory.md"]
    database = Path((await memory.status()).database)
    memory.close()
    database.write_bytes(b"no database at all" * 1000)
    answer = await memory.search(MemoryQuestion("boat"))
    assert [hit.path for hit in answer.hits] == ["memory.md"]
    assert "rebuilt" in answer.notes[0]


async def test_a_rebuild_finds_the_same(memory: BuiltinMemory, workspace: Path) -> None:
    (workspace / "memory.md").write_text("The boat is blue.\n")
    assert await paths(memory, "boat") == ["memory.md"]
    report = await memory.sync(force=True)
    assert (report.added, report.chunks) == (1, 1)
    assert await paths(memory, "boat") == ["memory.md"]
    assert (await memory.sync()).unchanged == 1
