"""The tools `write` and `edit`: changed files, unchanged files, and refusals."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skerry.features.files.edit_tool import Edit
from skerry.features.files.parameters import MAX_BYTES
from skerry.features.files.write_tool import Write
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import OutsideWorkspaceError, ToolError
from skerry.ports.tool import Tool, ToolContext


async def run(tool: Tool, workspace: Path, arguments: dict[str, Any]) -> str:
    result = await tool.run(arguments, ToolContext(RootedFolder(workspace)))
    assert not result.is_error
    return result.text


async def edit(workspace: Path, old: str, new: str, path: str = "a.txt") -> str:
    return await run(Edit(), workspace, {"path": path, "oldText": old, "newText": new})


async def test_a_file_is_made_then_replaced(tmp_path: Path) -> None:
    arguments = {"path": "notes/a.txt", "content": "é\r\n"}
    assert await run(Write(), tmp_path, arguments) == "Made notes/a.txt: 4 bytes."
    assert await run(Write(), tmp_path, arguments) == "Replaced notes/a.txt: 4 bytes."
    assert (tmp_path / "notes/a.txt").read_bytes() == b"\xc3\xa9\r\n"


async def test_one_passage_is_replaced_and_its_line_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\nthree")
    (tmp_path / "a.txt").chmod(0o751)
    assert await edit(tmp_path, "two\n", "2\n") == "Edited a.txt at line 2."
    assert (tmp_path / "a.txt").read_bytes() == b"one\n2\nthree"
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nB\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nB\nc"),
        (b"\r\na\nb\nc", b"\r\na\nB\nB\nc"),
    ],
    ids=["windows", "mark at the start", "mixed"],
)
async def test_line_endings_and_the_mark_stay(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(before)
    await edit(tmp_path, "a\nb\n", "a\nB\nB\n")
    assert (tmp_path / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("content", "old", "new", "message"),
    [
        (b"one", "two", "2", "does not occur. Read the file"),
        (b"aa", "a", "b", "more than once. Give more"),
        (b"aaa", "aa", "b", "more than once"),
        (b"one", "one", "one", "are the same"),
        (b"\xff", "a", "b", "not UTF-8"),
        (b"a\0", "a", "b", "not a text file"),
        (b"a" * (MAX_BYTES + 1), "b", "c", "more than"),
        (b"a" * MAX_BYTES, "a" * MAX_BYTES, "é" * MAX_BYTES, "Write less"),
    ],
)
async def test_an_edit_that_cannot_be_made_says_what_to_do(
    tmp_path: Path, content: bytes, old: str, new: str, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ToolError, match=message):
        await edit(tmp_path, old, new)
    assert (tmp_path / "a.txt").read_bytes() == content


async def test_a_missing_file_is_not_edited(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="Create it with write"):
        await edit(tmp_path, "a", "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["../a.txt", "/etc/hosts", "link", "link/x", "hard", "pipe"])
async def test_what_is_no_plain_file_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (tmp_path / "a.txt").write_bytes(b"a")
    (workspace / "link").symlink_to(tmp_path)
    os.link(tmp_path / "a.txt", workspace / "hard")
    os.mkfifo(workspace / "pipe")
    with pytest.raises(OutsideWorkspaceError, match="Give a path of a plain file"):
        await run(Write(), workspace, {"path": path, "content": "b"})
    with pytest.raises(OutsideWorkspaceError, match="Give a path of a plain file"):
        await edit(workspace, "a", "b", path)
    assert (tmp_path / "a.txt").read_bytes() == b"a"


async def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(ToolError, match=r"Cannot write a\.txt/b: Not a directory"):
        await run(Write(), tmp_path, {"path": "a.txt/b", "content": ""})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Write(), {"path": "a"}),
        (Write(), {"path": "", "content": ""}),
        (Write(), {"path": "x" * 1025, "content": ""}),
        (Write(), {"path": "a", "content": "x" * (MAX_BYTES + 1)}),
        (Write(), {"path": "a", "content": "", "mode": 511}),
        (Write(), {"path": "a", "content": "\ud800"}),
        (Edit(), {"path": "a", "oldText": "", "newText": ""}),
        (Edit(), {"path": "a", "oldText": "x" * (MAX_BYTES + 1), "newText": ""}),
    ],
)
async def test_bad_arguments_are_refused(
    tmp_path: Path, tool: Tool, arguments: dict[str, Any]
) -> None:
    with pytest.raises((ValidationError, ToolError)):
        await run(tool, tmp_path, arguments)
