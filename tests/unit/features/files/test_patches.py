"""Patches of `apply_patch`: the form, where hunks go, limits, and random ones."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.features.files.patches import MAX_CHARS, FilePatch, PatchError, applied, parse


def update(body: str, text: str) -> str:
    (file,) = parse(f"*** Begin Patch\n*** Update File: a.txt\n{body}\n*** End Patch")
    return applied(text, file)


def test_all_that_a_patch_can_do_is_read() -> None:
    files = parse(
        "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n*** Delete File: old.txt\n"
        "*** Update File: a.txt\n*** Move to: b.txt\n@@ def f():\n-    x\n+    y\n"
        "*** End of File\n*** End Patch\n"
    )
    assert [(file.kind, file.path, file.move_to) for file in files] == [
        ("add", "new.txt", ""),
        ("delete", "old.txt", ""),
        ("update", "a.txt", "b.txt"),
    ]
    assert files[0].lines == ["one", ""]
    hunk = files[2].hunks[0]
    assert (hunk.above, hunk.old, hunk.new, hunk.at_end) == (
        ["def f():"],
        ["    x"],
        ["    y"],
        True,
    )


def test_a_here_document_around_it_is_taken_off() -> None:
    assert parse("<<'EOF'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF")[0].path == "a"


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        (" a\n-b\n+B\n c", "a\nb\nc\n", "a\nB\nc\n"),
        ("@@\n-b\n+B", "a\nb\n", "a\nB\n"),
        ("@@ second\n-x\n+y", "first\nx\nsecond\nx\n", "first\nx\nsecond\ny\n"),
        ("@@ class A\n@@ def f\n-x\n+y", "def f\nx\nclass A\ndef f\nx\n", None),
        ("@@\n+end", "a\n", "a\nend\n"),
        ("@@ a\n+b", "a\nc\n", "a\nb\nc\n"),
        ("@@\n-x\n+y\n*** End of File", "x\na\nx\n", "y\na\nx\n"[:0] + "x\na\ny\n"),
        ("@@\n-a\n+A\n@@\n-c\n+C", "a\nb\nc\n", "A\nb\nC\n"),
        ("@@\n-a\n+A", "a  \nb\n", "A\nb\n"),
        ("@@\n-a\n+A", "   a\nb\n", "A\nb\n"),
        ("@@\n-b\n+B", "a\r\nb\r\n", "a\r\nB\r\n"),
        ("@@\n-a\n+A", "a\nb", "A\nb"),
        ("@@\n-b\n+B", "a\nb", "a\nB\n"),
        ("@@\n+only", "", "only\n"),
    ],
)
def test_a_hunk_goes_to_its_lines(body: str, text: str, expected: str | None) -> None:
    assert update(body, text) == (expected or "def f\nx\nclass A\ndef f\ny\n")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("", "first line"),
        ("*** Begin Patch\n*** Delete File: a", "last line"),
        ("*** Begin Patch\n*** End Patch", "changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "no hunk"),
        ("*** Begin Patch\n*** Update File: \n-a\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "begin with"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "not a header"),
        ("*** Begin Patch\n*** Update File: a\n?x\n*** End Patch", "begins with"),
        ("*** Begin Patch\n*** Update File: a\n@@ x\n@@ y\n*** End Patch", "has no lines"),
        ("*** Begin Patch\n*** Delete File: a\n*** Delete File: a\n*** End Patch", "twice"),
        (
            (
                "*** Begin Patch\n*** Delete File: b\n*** Update File: a\n*** Move to: b\n"
                "*** End Patch"
            ),
            "twice",
        ),
        ("*** Begin Patch\n" + "x" * MAX_CHARS, "more than"),
    ],
)
def test_another_form_is_refused_with_the_remedy(patch: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        parse(patch)


def test_lines_that_are_not_there_are_refused() -> None:
    with pytest.raises(PatchError, match="Read it again"):
        update("@@\n-x\n+y", "a\nb\n")
    with pytest.raises(PatchError, match="no line 'z'"):
        update("@@ z\n-a\n+y", "a\nb\n")
    with pytest.raises(PatchError, match="Read it again"):
        update("@@\n-b\n+B\n@@\n-a\n+A", "a\nb\n")


def test_a_patch_that_would_take_long_is_given_up() -> None:
    hunk = "@@\n" + "-a\n" * 1000 + "-b\n+c"
    with pytest.raises(PatchError, match="takes too long"):
        update(hunk, "a\n" * 20_000)


lines_ = st.lists(st.sampled_from(["a", "b", "  c", "d e", ""]), max_size=12)


@given(lines_, lines_)
def test_the_patch_of_a_diff_makes_the_new_text(before: list[str], after: list[str]) -> None:
    if before == after:
        return
    body = [
        line
        for line in difflib.unified_diff(before, after, n=len(before) + 1, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    text = "".join(line + "\n" for line in before)
    assert update("@@\n" + "\n".join(body), text) == "".join(line + "\n" for line in after)


parts = st.sampled_from(
    [
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: a",
        "*** Update File: b",
        "*** Delete File: c",
        "*** Move to: d",
        "*** End of File",
        "@@",
        "@@ x",
        "+a",
        "-a",
        " a",
        "",
        "a",
        "***",
    ]
)


@given(st.lists(parts, max_size=14), st.text(max_size=40))
def test_random_patches_are_applied_or_refused(rows: list[str], text: str) -> None:
    try:
        files = parse("\n".join(["*** Begin Patch", *rows, "*** End Patch"]))
        for file in files:
            assert isinstance(file, FilePatch)
            applied(text, file)
    except PatchError:
        return  # it is told what is wrong; nothing else may be raised
