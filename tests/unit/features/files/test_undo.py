"""Stored copies of changed files, and `skerry undo`."""

import json
from hashlib import sha256
from pathlib import Path

import anyio.to_thread
import pytest
from msgspec.structs import replace

from skerry.cli.main import main
from skerry.config.gateway import LOCK
from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.files import journal as journals
from skerry.features.files.apply_patch import ApplyPatch
from skerry.features.files.edit_tool import Edit
from skerry.features.files.journal import Journal
from skerry.features.files.undoing import undone
from skerry.features.files.write_tool import Write
from skerry.infra.lock import locked
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import SkerryError
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.policy.decide import Actor
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.ports.tool import ToolContext
from tests.support.fake_gateway import TOKEN, fake_gateway

OWNER = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)


class UndoRig:
    """An installation with one workspace, and tools that store copies."""

    def __init__(self, home: Path) -> None:
        self.now = 1_700_000_000_000
        self.config = Config(state_dir=home, path=home / "skerry.json")
        self.root = home / "workspace"
        self.root.mkdir(parents=True)
        self.journal = Journal(home, lambda: self.now)
        self.records = FileRecords()

    def context(self, turn: str = "r1", *taint: Origin) -> ToolContext:
        actor = Actor.of(OWNER, frozenset(taint))
        folder = RootedFolder(self.root, gate(self.config, actor, self.records))
        return ToolContext(folder, caller=OWNER, run_id=turn, taint=frozenset(taint))

    async def write(self, path: str, content: str, turn: str = "r1", *taint: Origin) -> None:
        self.now += 1
        arguments = {"path": path, "content": content}
        await Write(self.journal).run(arguments, self.context(turn, *taint))

    def undo(
        self, turn: str, records: FileRecords | None = None
    ) -> tuple[list[str], list[tuple[str, str]]]:
        changes = [change for change in self.journal.changes() if change.turn == turn]
        result = undone(self.config, self.journal, changes, records or self.records)
        return result["undone"], [(row["path"], row["reason"]) for row in result["refused"]]

    def taint(self, path: str, records: FileRecords) -> frozenset[Origin]:
        target = self.root.resolve() / path
        data = target.read_bytes()
        return records.of_file(str(target), len(data), lambda: sha256(data).digest())


@pytest.fixture
def rig(tmp_path: Path) -> UndoRig:
    return UndoRig(tmp_path)


async def test_a_turn_is_taken_back_as_a_whole(rig: UndoRig) -> None:
    (rig.root / "a.txt").write_text("one\n")
    (rig.root / "d.txt").write_text("dee\n")
    await rig.write("a.txt", "two\n")
    rig.now += 1
    arguments = {"path": "a.txt", "oldText": "two", "newText": "three"}
    await Edit(rig.journal).run(arguments, rig.context())
    await rig.write("sub/new.txt", "new\n")
    patch = "*** Begin Patch\n*** Delete File: d.txt\n*** End Patch"
    await ApplyPatch(rig.journal).run({"input": patch}, rig.context())
    undone, refused = rig.undo("r1")
    assert (sorted(undone), refused) == (["a.txt", "d.txt", "sub/new.txt"], [])
    assert (rig.root / "a.txt").read_text() == "one\n"
    assert (rig.root / "d.txt").read_text() == "dee\n"
    assert not (rig.root / "sub/new.txt").exists()
    assert rig.journal.changes() == []
    assert list((rig.config.state_dir / "undo").iterdir()) == []


async def test_what_somebody_else_changed_since_stays(rig: UndoRig) -> None:
    await rig.write("a.txt", "one\n")
    await rig.write("b.txt", "one\n")
    (rig.root / "a.txt").write_text("mine\n")
    undone, refused = rig.undo("r1")
    assert undone == ["b.txt"]
    assert refused == [("a.txt", "another program changed it since")]
    assert (rig.root / "a.txt").read_text() == "mine\n"
    assert [change.path for change in rig.journal.changes()] == ["a.txt"]


async def test_a_later_turn_must_be_undone_first(rig: UndoRig) -> None:
    await rig.write("a.txt", "one\n", "r1")
    await rig.write("a.txt", "two\n", "r2")
    assert rig.undo("r1")[0] == []
    assert rig.undo("r2")[0] == ["a.txt"]
    assert rig.undo("r1")[0] == ["a.txt"]
    assert not (rig.root / "a.txt").exists()


async def test_a_damaged_copy_restores_nothing(rig: UndoRig) -> None:
    await rig.write("a.txt", "one\n", "r1")
    await rig.write("a.txt", "two\n", "r2")
    (copy,) = (rig.config.state_dir / "undo").glob("*.old")
    copy.write_text("evil\n")
    assert rig.undo("r2") == ([], [("a.txt", "its stored copy is damaged")])
    assert (rig.root / "a.txt").read_text() == "two\n"


async def test_a_change_that_fails_leaves_no_copy(rig: UndoRig) -> None:
    (rig.root / "a.txt").write_text("one\n")
    (rig.root / "a.txt").chmod(0o400)
    with pytest.raises(SkerryError):
        await rig.write("a.txt", "two\n")
    assert rig.journal.changes() == []


async def test_a_restored_text_of_others_is_recorded_as_theirs(rig: UndoRig) -> None:
    await rig.write("a.txt", "of a page\n", "r1", Origin.WEB)
    await rig.write("a.txt", "mine\n", "r2")
    await rig.write("b.txt", "mine\n", "r3")
    await rig.write("b.txt", "of a page\n", "r4", Origin.WEB)
    assert rig.taint("a.txt", rig.records) == frozenset()
    kept: list[FileRecord] = []
    stored = [rig.records.of(str(rig.root.resolve() / name)) for name in ("a.txt", "b.txt")]
    after_restart = FileRecords([record for record in stored if record], kept.append)
    assert rig.undo("r2", after_restart) == (["a.txt"], [])
    assert (rig.root / "a.txt").read_text() == "of a page\n"
    assert rig.taint("a.txt", after_restart) == {Origin.WEB}
    assert [record.taint for record in kept] == [{Origin.WEB}]
    assert rig.undo("r4", after_restart) == (["b.txt"], [])
    assert rig.taint("b.txt", after_restart) == frozenset()


async def test_without_records_a_text_of_others_or_of_unknown_origin_is_not_restored(
    rig: UndoRig,
) -> None:
    await rig.write("a.txt", "of a page\n", "r1", Origin.WEB)
    await rig.write("a.txt", "mine\n", "r2")
    result = undone(rig.config, rig.journal, rig.journal.changes()[:1], None)
    assert result["undone"] == []
    assert "start it and try again" in result["refused"][0]["reason"]
    (newest, *_) = rig.journal.changes()
    assert newest.origins == (Origin.WEB,)
    assert replace(newest, origins=None).old_origins == {Origin.TOOL}


@pytest.mark.abuse(91)
async def test_copies_are_private_and_expire(rig: UndoRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.write("a.txt", "one\n")
    await rig.write("a.txt", "two\n")
    folder = rig.config.state_dir / "undo"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    monkeypatch.setattr(journals, "MAX_CHANGES", 2)
    await rig.write("a.txt", "three\n")
    assert len(rig.journal.changes()) == 2
    monkeypatch.setattr(journals, "MAX_BYTES", 3)
    await rig.write("a.txt", "four\n")
    assert rig.journal.changes() == []
    monkeypatch.undo()
    await rig.write("a.txt", "five\n")
    rig.now += (journals.DAYS + 1) * 24 * 3600 * 1000
    assert rig.journal.changes() == []
    await rig.write("b.txt", "one\n")
    assert len(list(folder.glob("*.json"))) == 1


async def test_no_copy_is_stored_of_what_later_runs_read(rig: UndoRig) -> None:
    await rig.write("SOUL.md", "Be kind.\n")
    await rig.write("memory/2026-01-01.md", "- secret\n")
    assert rig.journal.changes() == []


async def test_the_command_lists_and_undoes_the_last_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
    place = UndoRig(tmp_path / "state")
    monkeypatch.setattr(journals, "_DAY_MS", 10**13)
    await place.write("a.txt", "one\n", "r1")
    await place.write("b.txt", "one\n", "r2")
    assert main(["undo", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["changes"]
    assert [(row["path"], row["turn"], row["kind"]) for row in listed] == [
        ("b.txt", "r2", "add"),
        ("a.txt", "r1", "add"),
    ]
    assert main(["undo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"undone": ["b.txt"], "refused": []}
    (place.root / "a.txt").write_text("mine\n")
    assert main(["undo", "--file", "a.txt"]) == 1
    assert "another program changed it since" in capsys.readouterr().err
    assert (place.root / "a.txt").read_text() == "mine\n"


async def test_the_command_lets_a_running_gateway_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = UndoRig(tmp_path / "state")
    monkeypatch.setattr(journals, "_DAY_MS", 10**13)
    await place.write("a.txt", "one\n")
    (change,) = place.journal.changes()
    async with fake_gateway() as gateway:
        gateway.answer("files.undo", {"undone": ["a.txt"], "refused": []})
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("SKERRY_GATEWAY_PORT", gateway.url.rpartition(":")[2])
        monkeypatch.setenv("SKERRY_GATEWAY_TOKEN", TOKEN)
        with locked(tmp_path / "state" / LOCK):
            assert await anyio.to_thread.run_sync(main, ["undo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == ["a.txt"]
    assert gateway.requests == [("files.undo", {"ids": [change.id]})]
    assert (place.root / "a.txt").exists()
