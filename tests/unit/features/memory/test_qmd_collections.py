"""The collections of an agent, and their registration after changes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.memory_qmd import QmdConfig
from skerry.features.memory.qmd_collections import (
    Changes,
    QmdCollection,
    changes,
    configured,
    listed,
    sanitised,
    unique,
)
from skerry.model.memory import MemorySource


def config(*paths: object, **more: object) -> QmdConfig:
    return QmdConfig.model_validate({"paths": paths, **more})


@pytest.mark.requirement("qmd-default-collections")
def test_the_memory_of_the_workspace_has_three_and_conversations_one(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    collections, refused = configured(QmdConfig(), tmp_path, sessions)
    assert refused == []
    assert collections == [
        QmdCollection("memory-root", tmp_path, "MEMORY.md"),
        QmdCollection("memory-alt", tmp_path, "memory.md"),
        QmdCollection("memory-dir", tmp_path, "memory/**/*.md"),
        QmdCollection("sessions", sessions, "*.md", MemorySource.SESSIONS),
    ]
    off = config(includeDefaultMemory=False, sessions={"enabled": False})
    assert configured(off, tmp_path, sessions) == ([], [])


@pytest.mark.requirement("qmd-collection-name-sanitised")
def test_names_of_custom_collections_are_sanitised_and_unique(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    one = {"path": str(tmp_path / "a")}
    collections, _ = configured(
        config(
            one,
            one | {"name": "My Notes!"},
            one | {"name": "my-notes"},
            one | {"name": "\N{SNOWMAN}"},
        ),
        tmp_path,
        tmp_path,
    )
    names = [each.name for each in collections]
    assert names[3:] == ["custom-1", "my-notes", "my-notes-2", "custom-4", "sessions"]


@given(st.text(), st.sets(st.sampled_from(["a", "a-2", "a-3"])))
def test_a_name_is_lower_case_letters_digits_and_hyphens(name: str, taken: set[str]) -> None:
    assert set(sanitised(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not sanitised(name).startswith("-")
    assert unique("a", taken) not in taken


@pytest.mark.requirement("qmd-no-symlink-escape")
def test_roots_that_leave_the_workspace_are_refused(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (workspace / "notes").mkdir(parents=True)
    outside.mkdir()
    (workspace / "link").symlink_to(outside)
    collections, refused = configured(
        config({"path": "../outside"}, {"path": "link"}, {"path": "notes"}, {"path": "gone"}),
        workspace,
        tmp_path,
    )
    assert [(collection.name, collection.root) for collection in collections[3:-1]] == [
        ("custom-3", workspace / "notes")
    ]
    assert [text.split(" is not")[0] for text in refused] == [
        "memory.qmd.paths: ../outside",
        "memory.qmd.paths: link",
        "memory.qmd.paths: gone",
    ]
    assert "outside the workspace" in refused[1]


def test_one_file_is_a_collection_of_just_that_file(tmp_path: Path) -> None:
    (tmp_path / "Notes (1).md").write_text("x", "utf-8")
    collections, _ = configured(config({"path": "Notes (1).md"}), tmp_path, tmp_path)
    assert (collections[3].root, collections[3].mask) == (tmp_path, r"Notes \(1\).md")


@pytest.mark.parametrize("pattern", ["../*.md", "/etc/*", "a/../../b.md", "-x"])
def test_a_pattern_stays_in_its_folder(pattern: str) -> None:
    with pytest.raises(ValueError, match="within the folder"):
        config({"path": "notes", "pattern": pattern})


def test_only_what_differs_is_registered_again() -> None:
    path = Path("/w")
    first, second, third = (QmdCollection(name, path, "*.md") for name in ("a", "b", "c"))
    record = {"a": ["/w", "*.md"], "b": ["/elsewhere", "*.md"], "old": ["/w", "*"]}
    assert changes([first, second, third], ["a", "b", "old", "foreign"], record) == Changes(
        ["b", "old"], [second, third]
    )
    assert changes([first], ["a"], {"a": ["/w", "*"]}) == Changes(["a"], [first]), "the pattern"
    assert changes([first], [], {"a": ["/w", "*.md"]}) == Changes([], [first]), "the index is gone"
    assert changes([first], ["a"], {}) == Changes(["a"], [first]), "the record is gone"
    assert changes([first], ["a"], {"a": ["/w", "*.md"]}) == Changes([], [])


def test_names_are_read_from_what_the_program_prints_for_people() -> None:
    text = "Collections (2):\n\na-b (qmd://a-b/)\n  Pattern:  *.md\n  Files:    1\n\nc (qmd://c/)\n"
    assert listed(text) == ["a-b", "c"]
    assert listed("No collections found.\n") == []
