"""What QMD answers is read strictly; passages come from the files as they are now."""

import os
from pathlib import Path

import pytest

from skerry.features.memory.qmd_collections import QmdCollection
from skerry.features.memory.qmd_filter import fits
from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_results import Result, answered, hits, lines, located, printed
from skerry.model.memory import MemoryHit, MemoryQuestion, MemorySource

DAY = 1_767_225_600_000
"""2026-01-01."""
REAL = b"""[{"docid": "#091a46", "score": 0, "file": "qmd://memory-dir/memory/My Notes (x).md",
 "line": 3, "title": "Odd", "snippet": "@@ -2,4 @@ (1 before, 0 after)\\n\\nA lion.\\nMore.\\n"}]"""
SERVED = b"""{"content":[{"type":"text","text":"Found 1 result"}],"structuredContent":{"results":[
{"docid":"#091a46","file":"memory-dir/memory/My Notes (x).md","title":"Odd","score":0,
"context":null,"line":3,
"snippet":"3: @@ -2,4 @@ (1 before, 0 after)\\n4: \\n5: A lion.\\n6: More.\\n7: "}]}}"""


@pytest.fixture
def folder(tmp_path: Path) -> dict[str, QmdCollection]:
    root = tmp_path / "workspace"
    (root / "memory").mkdir(parents=True)
    (root / "memory/My Notes (x).md").write_text("# Odd\n\nA lion.\nMore.\n", "utf-8")
    return {"memory-dir": QmdCollection("memory-dir", root, "memory/**/*.md")}


@pytest.mark.requirement("qmd-result-fields")
@pytest.mark.requirement("qmd-result-paths")
def test_command_and_server_give_the_same_passage(folder: dict[str, QmdCollection]) -> None:
    (hit,) = hits(printed(REAL), folder)
    assert (hit.path, hit.start_line, hit.end_line, hit.text) == (
        "qmd/memory-dir/memory/My Notes (x).md",
        3,
        4,
        "A lion.\nMore.",
    )
    assert hit.score == 0, "it drops nothing"
    assert list(hits(answered(SERVED), folder)) == [hit]


@pytest.mark.requirement("qmd-strict-json")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Loading 3%\n[]",
        b"[] done",
        b"{}",
        b'[{"path": "x"}]',
        b'[{"docid": 3}]',
        b"[\xff]",
        b'[{"a":' * 9999,
    ],
)
def test_anything_but_the_json_that_was_asked_for_is_an_error(data: bytes) -> None:
    with pytest.raises(QmdError, match="not the expected JSON"):
        printed(data)
    with pytest.raises(QmdError, match="not the expected JSON"):
        answered(data)
    assert list(printed(b"[]\n")) == []


def test_lines_come_from_the_header_else_from_the_line() -> None:
    assert lines(Result("#1", 0, "f", "@@ -7,3 @@ (6 before, 0 after)\n")) == (7, 9)
    assert lines(Result("#1", 0, "f", "12: @@ -7,0 @@")) == (7, 7)
    assert lines(Result("#1", 0, "f", "no header", line=4)) == (4, 4)


def test_what_was_forgotten_since_does_not_come_back(folder: dict[str, QmdCollection]) -> None:
    file = folder["memory-dir"].root / "memory/My Notes (x).md"
    file.write_text("# Odd\n", "utf-8")
    assert list(hits(printed(REAL), folder)) == []
    file.unlink()
    assert list(hits(printed(REAL), folder)) == []


@pytest.mark.requirement("qmd-no-symlink-escape")
def test_links_and_ways_out_give_nothing(folder: dict[str, QmdCollection], tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret", "utf-8")
    (folder["memory-dir"].root / "memory/link.md").symlink_to(secret)
    (folder["memory-dir"].root / "plain.txt").write_text("text", "utf-8")
    for path in ("memory/link.md", "../secret.md", "/../secret.md", "plain.txt"):
        assert list(hits([Result("#1", 1, f"qmd://memory-dir/{path}")], folder)) == []


@pytest.mark.requirement("qmd-collections-per-agent")
def test_a_hit_of_another_agent_is_passed_over(folder: dict[str, QmdCollection]) -> None:
    results = [Result("#1", 1, "qmd://theirs/memory/My Notes (x).md"), Result("#1", 1, "/etc/x.md")]
    assert list(hits(results, folder)) == []
    assert located("qmd/theirs/x.md", folder) is None
    assert located("MEMORY.md", folder) is None


def test_one_file_in_two_collections_is_one_hit(folder: dict[str, QmdCollection]) -> None:
    again = QmdCollection("custom-1", folder["memory-dir"].root, "**/*.md")
    file = "memory/My Notes (x).md"
    results = [Result("#1", 1, f"qmd://{name}/{file}") for name in ("memory-dir", "custom-1")]
    assert len(list(hits(results, folder | {"custom-1": again}))) == 1


def test_a_hit_is_dated_by_its_name_else_by_its_last_change(
    folder: dict[str, QmdCollection],
) -> None:
    root = folder["memory-dir"].root
    for name in ("memory/2026-01-01.md", "memory/2026-99-01.md"):
        (root / name).write_text("text", "utf-8")
        os.utime(root / name, (86_400, 86_400))
    results = [
        Result("#1", 1, f"qmd://memory-dir/memory/{name}.md")
        for name in ("2026-01-01", "2026-99-01")
    ]
    assert [hit.at for hit in hits(results, folder)] == [DAY, 86_400_000]


def test_a_hit_in_a_conversation_says_in_which(tmp_path: Path) -> None:
    (tmp_path / "abc.md").write_text("User: hello", "utf-8")
    folder = {"sessions": QmdCollection("sessions", tmp_path, "*.md", MemorySource.SESSIONS)}
    results = [Result("#1", 1, "qmd://sessions/abc.md")]
    (hit,) = hits(results, folder, {"abc.md": "agent:main:main"})
    assert (hit.source, hit.session) == (MemorySource.SESSIONS, "agent:main:main")
    (unknown,) = hits(results, folder)
    assert unknown.session is None


def test_hits_are_narrowed_to_what_was_asked_for() -> None:
    hit = MemoryHit(
        "qmd/memory-dir/memory/a.md", 1, 1, 0.2, "t", MemorySource.MEMORY, at=DAY, session="key"
    )

    def kept(*, scored: bool = False, **payload: object) -> bool:
        return fits(MemoryQuestion("q", **payload), hit, scored=scored)  # type: ignore[arg-type] # given by each case

    assert kept(since=DAY, until=DAY + 1)
    assert not kept(since=DAY + 1)
    assert not kept(until=DAY)
    assert kept(path="memory/")
    assert kept(path="qmd/memory-dir/memory/a.md")
    assert not kept(path="memory")
    assert kept(session="key")
    assert not kept(session="another")
    assert kept(min_score=0.3), "a word's score is no measure"
    assert not kept(min_score=0.3, scored=True)
    assert kept(min_score=0.2, scored=True)


def test_what_the_server_refuses_is_an_error_with_its_words() -> None:
    refused = b'{"content":[{"type":"text","text":"no such index"}],"isError":true}'
    with pytest.raises(QmdError, match="no such index"):
        answered(refused)
