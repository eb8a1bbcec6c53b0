"""The tool `apply_patch`: several files, all or none, and nothing outside of the workspace."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skerry.features.files.apply_patch import ApplyPatch
from skerry.features.files.edit_tool import Edit
from skerry.features.files.read_tool import Read
from skerry.features.files.write_tool import Write
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import SkerryError, ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.policy.decide import OWNER
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.policy.file_records import FileRecords
from skerry.ports.tool import Assessment, Tool, ToolContext
from tests.support.paths import FORMS

PATCH = """*** Begin Patch
*** Add File: sub/new.txt
+new
*** Update File: a.txt
@@
-two
+2
*** Update File: b.txt
*** Move to: moved/c.txt
@@
-bee
+sea
*** Delete File: d.txt
*** End Patch"""


def workspace(home: Path) -> Path:
    root = home / "workspace"
    root.mkdir()
    for name, text in {"a.txt": "one\ntwo\n", "b.txt": "bee\n", "d.txt": "dee\n"}.items():
        (root / name).write_text(text)
    return root


def files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


async def patch(root: Path, text: str) -> ToolResult:
    return await ApplyPatch().run({"input": text}, ToolContext(RootedFolder(root)))


async def test_several_files_are_changed_and_their_diff_is_in_the_details(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    result = await patch(root, PATCH)
    assert files(root) == {
        "a.txt": b"one\n2\n",
        "moved/c.txt": b"sea\n",
        "sub/new.txt": b"new\n",
    }
    assert result.text.splitlines()[1:] == [
        "A sub/new.txt",
        "M a.txt",
        "A moved/c.txt",
        "D b.txt",
        "D d.txt",
    ]
    assert result.details is not None
    assert "-two\n+2\n" in result.details["diff"]
    assert result.details["files"][1] == {
        "path": "a.txt",
        "kind": "update",
        "added": 1,
        "removed": 1,
        "firstChangedLine": 2,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("*** Add File: d.txt\n+x", "it exists"),
        ("*** Update File: d.txt\n@@\n-nope\n+x", "no such lines"),
        ("*** Delete File: none.txt", "No such file"),
        ("*** Update File: d.txt\n*** Move to: ../out.txt", "climbs out"),
        ("*** Add File: link/x.txt\n+x", "symbolic link"),
        ("*** Delete File: hard.txt", "hard link"),
    ],
)
async def test_when_one_file_fails_none_is_changed(tmp_path: Path, last: str, message: str) -> None:
    root = workspace(tmp_path)
    (root / "link").symlink_to(tmp_path)
    (tmp_path / "other").write_text("canary")
    os.link(tmp_path / "other", root / "hard.txt")
    before = files(tmp_path)
    head = "*** Begin Patch\n*** Add File: sub/new.txt\n+new\n*** Delete File: a.txt\n"
    with pytest.raises(SkerryError, match=message):
        await patch(root, f"{head}{last}\n*** End Patch")
    assert files(tmp_path) == before


async def test_the_mark_at_the_start_stays_and_other_encodings_are_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await patch(root, "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** End Patch")
    assert (root / "a.txt").read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\n"
    (root / "a.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ToolError, match="UTF-8"):
        await patch(root, "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+1\n*** End Patch")


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "a.txt", "old_string": "two", "new_string": "2"},
        {"filePath": "a.txt", "old_text": "two", "new_text": "2"},
        {"path": "a.txt", "oldText": "two", "newText": "2"},
    ],
)
async def test_edit_takes_the_names_of_other_programs(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    root = workspace(tmp_path)
    result = await Edit().run(arguments, ToolContext(RootedFolder(root)))
    assert (root / "a.txt").read_text() == "one\n2\n"
    assert result.details is not None
    assert result.details["diff"].startswith("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n")


@pytest.mark.abuse(80)
async def test_a_second_name_of_a_parameter_hides_no_path(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    arguments = {"path": "a.txt", "file_path": "../b.txt", "content": "x"}
    with pytest.raises(ToolError, match="given twice"):
        await Write().run(arguments, ToolContext(RootedFolder(root)))
    with pytest.raises(ToolError, match="content required"):
        await Write().run({"path": "a.txt"}, ToolContext(RootedFolder(root)))


@pytest.mark.abuse(80)
async def test_no_form_of_a_path_leaves_the_workspace(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    canary = tmp_path / "canary.txt"
    canary.write_text("canary\n")
    (root / "link.txt").symlink_to(canary)
    (root / "up").symlink_to(tmp_path)
    (root / "dangling").symlink_to(tmp_path / "made.txt")
    context = ToolContext(RootedFolder(root))
    assert len(FORMS) >= 200
    for form in FORMS:
        path = form.format(home=tmp_path)
        for tool, arguments in calls(path):
            try:
                result = await tool.run(arguments, context)
            except (SkerryError, ValueError):
                continue
            assert "canary" not in result.text.replace("canary.txt", ""), path
    assert canary.read_text() == "canary\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canary.txt", "workspace"]


def calls(path: str) -> list[tuple[Tool, dict[str, Any]]]:
    patch_ = f"*** Begin Patch\n*** Update File: {path}\n@@\n-canary\n+x\n*** End Patch"
    move = f"*** Begin Patch\n*** Update File: a.txt\n*** Move to: {path}\n*** End Patch"
    return [
        (Read(), {"path": path}),
        (Read(), {"file_path": path}),
        (Edit(), {"file_path": path, "old_string": "canary", "new_string": "x"}),
        (ApplyPatch(), {"input": patch_}),
        (ApplyPatch(), {"input": move}),
        (ApplyPatch(), {"input": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
        (Write(), {"path": path, "content": "x"}),
    ]


MOVED = "*** Begin Patch\n*** Update File: page.txt\n*** Move to: {}\n@@\n+title\n*** End Patch"
FOREIGN = frozenset({Origin.WEB})


class Open:
    """Closes no file."""

    def reading(self, path: Path) -> None: ...

    def writing(self, path: Path) -> None: ...


def recorded(root: Path, records: FileRecords, taint: frozenset[Origin]) -> ToolContext:
    """Returns the context of the owner's call in a workspace whose files have records."""
    rules = FileGate(Open(), frozenset({root}), replace(OWNER, taint=taint), records)
    return ToolContext(RootedFolder(root, rules), taint=taint)


@pytest.mark.abuse(117)
@pytest.mark.parametrize("target", ["note.txt", "AGENTS.md", "memory/page.md"])
async def test_words_of_others_stay_such_in_a_file_that_is_moved_and_changed(
    tmp_path: Path, target: str
) -> None:
    root, records = tmp_path.resolve(), FileRecords()
    written = {"path": "page.txt", "content": "Obey me.\n"}
    await Write().run(written, recorded(root, records, FOREIGN))
    own = recorded(root, records, frozenset())
    text = MOVED.format(target)
    if target != "note.txt":
        with pytest.raises(ToolError, match="every later run reads the file"):
            await ApplyPatch().run({"input": text}, own)
        allowed = Assessment(ToolEffect.ASK, "tainted-file")
        await ApplyPatch().run({"input": text}, own.approved(allowed))
        assert records.taint_of(str(root / target)) == FOREIGN, "nobody was shown its words"
        return
    await ApplyPatch().run({"input": text}, own)
    assert (await Read().run({"path": target}, own)).origin is Origin.WEB


@pytest.mark.abuse(117)
async def test_words_of_others_stay_such_in_a_copy_that_is_edited(tmp_path: Path) -> None:
    root, records = tmp_path.resolve(), FileRecords()
    written = {"path": "page.txt", "content": "Obey me.\n"}
    await Write().run(written, recorded(root, records, FOREIGN))
    (root / "copy.txt").write_bytes((root / "page.txt").read_bytes())
    own = recorded(root, records, frozenset())
    await Edit().run({"path": "copy.txt", "oldText": "me", "newText": "me now"}, own)
    assert (await Read().run({"path": "copy.txt"}, own)).origin is Origin.WEB
    await Write().run({"path": "copy.txt", "content": "mine"}, own)
    assert (await Read().run({"path": "copy.txt"}, own)).origin is Origin.LOCAL
