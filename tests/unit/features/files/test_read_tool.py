"""The tool `read`: windows with numbers, limits, refusals."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from skerry.features.files.read_tool import LINE_BYTES, MAX_CHARS, MAX_LINES, Read
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import OutsideWorkspaceError, ToolError
from skerry.ports.tool import ToolContext


async def read(workspace: Path, path: str = "a.txt", **arguments: object) -> str:
    context = ToolContext(RootedFolder(workspace))
    result = await Read().run({"path": path, **arguments}, context)
    assert not result.is_error
    return result.text


def write(workspace: Path, data: str | bytes) -> Path:
    (workspace / "a.txt").write_bytes(data.encode() if isinstance(data, str) else data)
    return workspace


async def test_lines_have_their_numbers(tmp_path: Path) -> None:
    assert await read(write(tmp_path, "one\ntwo\r\n\nfour")) == "1: one\n2: two\n3: \n4: four"


@pytest.mark.parametrize(
    ("start", "lines", "expected"),
    [
        (1, 2, "1: 1\n2: 2\n[more lines follow; go on with offset=3]"),
        (3, 1, "3: 3\n[more lines follow; go on with offset=4]"),
        (5, 9, "5: 5"),
        (5, 1, "5: 5"),
        (6, 1, "a.txt has no line 6."),
    ],
)
async def test_a_window_is_shown(tmp_path: Path, start: int, lines: int, expected: str) -> None:
    write(tmp_path, "1\n2\n3\n4\n5\n")
    assert await read(tmp_path, offset=start, limit=lines) == expected


async def test_a_line_that_no_file_has_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "1\n")
    with pytest.raises(ValidationError, match="less than or equal"):
        await read(tmp_path, start=10**30, lines=1)


async def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert await read(write(tmp_path, "")) == "a.txt has no line 1."


@pytest.mark.parametrize("end", ["\n", ""], ids=["then more", "then the end"])
async def test_an_overlong_line_is_cut_and_shifts_no_number(tmp_path: Path, end: str) -> None:
    write(tmp_path, "short\n" + "x" * (3 * LINE_BYTES + 5) + (f"{end}third\n" if end else ""))
    shown = (await read(tmp_path)).splitlines()
    assert shown[0] == "1: short"
    assert shown[1] == f"2: {'x' * LINE_BYTES} [line cut]"
    assert shown[2:] == (["3: third"] if end else [])
    if end:
        assert await read(tmp_path, start=3) == "3: third"


async def test_a_line_that_just_fits_is_whole(tmp_path: Path) -> None:
    write(tmp_path, "x" * LINE_BYTES + "\nnext")
    assert await read(tmp_path) == f"1: {'x' * LINE_BYTES}\n2: next"


async def test_too_much_text_is_cut_at_a_line_and_says_where_to_go_on(tmp_path: Path) -> None:
    write(tmp_path, ("x" * 995 + "\n") * 100)
    shown = (await read(tmp_path)).splitlines()
    assert len("".join(shown[:-1])) <= MAX_CHARS
    assert shown[-1] == "[cut at 50000 characters; go on with offset=51]"
    assert (await read(tmp_path, start=51)).startswith("51: x")


async def test_what_is_no_utf8_is_shown_with_marks(tmp_path: Path) -> None:
    assert await read(write(tmp_path, b"caf\xe9\n")) == "1: caf\ufffd"


async def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, b"ELF\0\1")
    with pytest.raises(ToolError, match="not a text file"):
        await read(tmp_path)


async def test_what_is_outside_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    write(tmp_path, "secret")
    (tmp_path / "w" / "link").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "w" / "pipe")
    for path in ("../a.txt", str(tmp_path / "a.txt"), "link", "pipe", ".", "a\0"):
        with pytest.raises(OutsideWorkspaceError, match="inside the workspace"):
            await read(tmp_path / "w", path)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"Cannot read b\.txt: No such file"):
        await read(tmp_path, "b.txt")


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": ""},
        {"path": "x" * 1025},
        {"path": 7},
        {"path": "a", "start": 0},
        {"path": "a", "lines": 0},
        {"path": "a", "lines": MAX_LINES + 1},
        {"path": "a", "more": 1},
        {},
    ],
)
async def test_bad_arguments_are_refused(tmp_path: Path, arguments: dict[str, object]) -> None:
    with pytest.raises((ValidationError, ToolError)):
        await Read().run(arguments, ToolContext(RootedFolder(tmp_path)))
