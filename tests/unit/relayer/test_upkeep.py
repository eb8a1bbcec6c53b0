"""New keys for all blobs, copies of a folder, and the doctor's look at it."""

import os
from pathlib import Path

import pytest

from skerry_relayer.blobs import FolderBlobs, unpacked
from skerry_relayer.cli import main
from skerry_relayer.database import SqliteDatabase
from skerry_relayer.doctor import examine
from skerry_relayer.errors import MissingError, RefusedError
from skerry_relayer.folders import DATABASE, Folders, locations_of, note_location
from skerry_relayer.keys.registry import Registry
from skerry_relayer.ports import Query
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.upkeep import OwnerRewrap, RewrapReport, backup, upkeep
from tests.support.relayer_memory import delegate, memory, rewrapped, stored

TUNA = "Otto the cat eats tuna."
CAT = Query("default", 5, "cat")


def generations(root: Path) -> set[int]:
    paths = [path for path in Folders(root).blobs.rglob("*") if path.is_file()]
    return {unpacked(path.read_bytes(), path.name).wrap.generation for path in paths}


async def test_rewrapped_blobs_open_with_the_new_key_alone_and_keep_their_ids(
    tmp_path: Path,
) -> None:
    me = delegate(tmp_path)
    async with memory(tmp_path) as running:
        job = await stored(running.memories, me.caller(), TUNA)
        await running.memories.remember_manual(me.caller(), b"sealed", [0.5] * 1536, "default")
        assert await rewrapped(tmp_path) == RewrapReport(1, 2, 0, 1)
        assert generations(tmp_path) == {2}
        with Registry(Folders(tmp_path).keys) as registry:
            assert registry.private_key(me.account.owner, 1) is None
        answer = await running.memories.recall(me.caller(), CAT)
        assert [(hit.text, hit.blob_id) for hit in answer.hits] == [(TUNA, job.blob_id)]
        await stored(running.memories, me.caller(), "A text of the new key.")
        assert generations(tmp_path) == {2}


async def test_an_old_key_is_kept_while_a_blob_needs_it(tmp_path: Path) -> None:
    me = delegate(tmp_path)
    async with memory(tmp_path) as running:
        job = await stored(running.memories, me.caller(), TUNA)
    path = Folders(tmp_path).blobs / me.account.owner[2:] / str(job.blob_id)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert (await rewrapped(tmp_path)).dropped == 0
    with Registry(Folders(tmp_path).keys) as registry:
        assert registry.private_key(me.account.owner, 1) is not None
    path.write_bytes(data)
    assert await rewrapped(tmp_path) == RewrapReport(1, 1, 0, 1)


async def test_a_blob_that_is_forgotten_while_it_is_rewrapped_stays_gone(tmp_path: Path) -> None:
    me = delegate(tmp_path)
    folders = Folders(tmp_path)
    async with memory(tmp_path) as running:
        await stored(running.memories, me.caller(), TUNA)

    class Slow(FolderBlobs):
        async def put(self, owner: str, blob_id: str, data: bytes) -> None:
            async with memory(tmp_path) as running:
                assert await running.memories.forget(me.caller(), [blob_id]) == 1
            await super().put(owner, blob_id, data)

    path = folders.database / DATABASE
    async with SqliteDatabase(path, steps(SQLITE)) as database:
        with Registry(folders.keys) as registry:
            await OwnerRewrap(registry, database, [Slow(folders.blobs)], grace_seconds=0).run()
    assert not [path for path in folders.blobs.rglob("*") if path.is_file()]


async def test_a_backup_of_a_running_relayer_is_a_folder_that_answers(tmp_path: Path) -> None:
    root, target = tmp_path / "relayer", tmp_path / "copy"
    me = delegate(root)
    async with memory(root) as running:
        await stored(running.memories, me.caller(), TUNA)
        copied = backup(root, target)
        assert (copied.memories, copied.blobs, copied.with_keys) == (1, 1, True)
        await running.memories.forget_namespace(me.caller(), "default")
    async with memory(target) as running:
        answer = await running.memories.recall(me.caller(), CAT)
        assert [hit.text for hit in answer.hits] == [TUNA]
    assert all(finding.ok for finding in examine(target, deep=True))
    with pytest.raises(RefusedError, match="exists already"):
        backup(root, target)
    with pytest.raises(MissingError, match="no relayer"):
        backup(tmp_path / "nothing", tmp_path / "other")


def test_a_backup_without_keys_has_none_and_two_upkeeps_exclude_each_other(tmp_path: Path) -> None:
    root = tmp_path / "relayer"
    delegate(root)
    assert not backup(root, tmp_path / "copy", with_keys=False).with_keys
    assert not (tmp_path / "copy" / "keys").exists()
    with upkeep(root), pytest.raises(RefusedError, match="Another rewrap or backup"):
        backup(root, tmp_path / "second")


async def test_the_doctor_names_what_is_wrong_and_the_remedy(tmp_path: Path) -> None:
    (missing,) = examine(tmp_path / "nothing")
    assert not missing.ok
    assert "skerry relayer init" in missing.remedy
    me = delegate(tmp_path)
    async with memory(tmp_path) as running:
        jobs = [
            await stored(running.memories, me.caller(), text) for text in (TUNA, "Two.", "Three")
        ]
    assert [finding.text for finding in examine(tmp_path, deep=True) if not finding.ok] == []
    folder = Folders(tmp_path).blobs / me.account.owner[2:]
    (folder / str(jobs[0].blob_id)).unlink()
    (folder / str(jobs[1].blob_id)).write_bytes(b"changed")
    os.chmod(folder / str(jobs[2].blob_id), 0o644)  # noqa: PTH101 - what a person does
    wrong = {finding.check: finding for finding in examine(tmp_path, deep=True) if not finding.ok}
    assert wrong.keys() == {"modes", "blobs"}
    assert "1 memories have no blob, 1 a changed one" in wrong["blobs"].text
    assert "chmod" in wrong["modes"].remedy


def test_a_backup_and_a_rewrap_never_overlook_blobs_in_a_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    delegate(tmp_path)
    note_location(tmp_path, "s3://memories")
    assert locations_of(tmp_path) == ["", "s3://memories"]
    with pytest.raises(RefusedError, match="s3://memories"):
        backup(tmp_path, tmp_path / "copy")
    assert main(["rewrap", "--dir", str(tmp_path)]) == 1
    assert "Give --database" in capsys.readouterr().err
    assert main(["rewrap", "--dir", str(tmp_path), "--database", ""]) == 1
    assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().err
    with Registry(Folders(tmp_path).keys) as registry:
        (account,) = registry.accounts()
        assert registry.private_key(account.owner, 1) is not None
