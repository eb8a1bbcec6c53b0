"""A thief with the files, with a database that he may write, with certificates not valid."""

import base64
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skerry_relayer.blobs import encoded, make_blob, packed, unpacked
from skerry_relayer.errors import ForbiddenError, NoCertificateError, RelayerError
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.keys.registry import Registry, now_ms
from skerry_relayer.ports import Caller, Query
from skerry_relayer.sessions import Certificate
from tests.support.relayer_memory import certificate, delegate, ended, memory, run_killed, stored
from tests.support.relayer_program import TEXTS

SECRET = "The safe opens with 4711."  # noqa: S105 - a text to remember
QUESTION = Query("default", 5, "safe")


def database(root: Path) -> sqlite3.Connection:
    return sqlite3.connect(Folders(root).database / DATABASE, isolation_level=None)


@pytest.mark.requirement("memwal-crypto-isolation")
async def test_a_thief_who_writes_the_database_opens_no_memory_of_another_owner(
    tmp_path: Path,
) -> None:
    owner = delegate(tmp_path, seed=1).caller()
    thief = delegate(tmp_path, seed=2).caller()
    async with memory(tmp_path) as running:
        await stored(running.memories, owner, SECRET)
    blobs = Folders(tmp_path).blobs
    (file,) = [path for path in blobs.rglob("*") if path.is_file()]
    with database(tmp_path) as db:  # the row is the thief's now, and so is a copy of the blob
        db.execute("UPDATE memory SET owner = ?, account_id = ?", (thief.owner, thief.account_id))
        db.execute("UPDATE tally SET owner = ?", (thief.owner,))
    copy = blobs / thief.owner[2:] / file.name
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    async with memory(tmp_path) as running:
        answer = await running.memories.recall(thief, QUESTION)
        assert (answer.hits, answer.dropped) == ((), 1)
        restored = await running.memories.restore(thief, "default", 10)
        assert restored.restored == 0
        assert not (await running.memories.recall(thief, QUESTION)).hits


async def test_a_blob_whose_header_names_the_thief_is_not_opened(tmp_path: Path) -> None:
    """He computes the id anew for a header of his own: the wrapped key is bound to the owner."""
    owner = delegate(tmp_path, seed=1).caller()
    thief = delegate(tmp_path, seed=2).caller()
    async with memory(tmp_path) as running:
        await stored(running.memories, owner, SECRET)
    (file,) = [path for path in Folders(tmp_path).blobs.rglob("*") if path.is_file()]
    blob = unpacked(file.read_bytes(), file.name)
    for account in (owner.account_id, thief.account_id):
        header = type(blob.header)(
            blob.header.id, thief.owner, account, "default", blob.header.created_at
        )
        forged = make_blob(header, encoded(header), blob.wrap, blob.body)
        path = Folders(tmp_path).blobs / thief.owner[2:] / forged.id
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed(forged))
    async with memory(tmp_path) as running:
        try:
            restored = (await running.memories.restore(thief, "default", 10)).restored
        except ForbiddenError:
            restored = 0
        assert restored == 0
        assert not (await running.memories.recall(thief, QUESTION)).hits


async def test_a_waiting_text_that_is_given_to_the_thief_is_not_stored_for_him(
    tmp_path: Path,
) -> None:
    owner = delegate(tmp_path, seed=1).caller()
    thief = delegate(tmp_path, seed=2).caller()
    async with memory(tmp_path) as running:
        job = await stored(running.memories, owner, SECRET)
    run_killed(tmp_path, "remember", "remember.accepted")
    with database(tmp_path) as db:
        changed = db.execute(
            "UPDATE job SET owner = ?, account_id = ? WHERE job_id <> ?",
            (thief.owner, thief.account_id, job.id),
        )
        assert changed.rowcount == len(TEXTS)
        ids = [
            row[0] for row in db.execute("SELECT job_id FROM job WHERE owner = ?", (thief.owner,))
        ]
    async with memory(tmp_path) as running:
        for job_id in ids:
            assert (await ended(running.memories, thief, job_id)).status == "failed"
        assert not (await running.memories.recall(thief, QUESTION)).hits


async def test_a_delegate_of_one_namespace_opens_no_other_even_by_a_written_database(
    tmp_path: Path,
) -> None:
    me = delegate(tmp_path, seed=1)
    limited = delegate(tmp_path, me.account, seed=2, namespaces=frozenset({"public"})).caller()
    async with memory(tmp_path) as running:
        await stored(running.memories, me.caller(), SECRET)
        await stored(running.memories, me.caller(), "The shop opens at nine.", "public")
        query = replace(QUESTION, namespace="public")
        assert len((await running.memories.recall(limited, query)).hits) == 1
        with pytest.raises(ForbiddenError):
            await running.memories.recall(limited, QUESTION)
    with database(tmp_path) as db:
        db.execute("UPDATE memory SET namespace = 'public'")
    async with memory(tmp_path) as running:
        answer = await running.memories.recall(limited, query)
        assert [hit.text for hit in answer.hits] == ["The shop opens at nine."]


def forged(caller: Caller, package_id: str) -> str:
    """Returns a certificate of the caller's key that another key signed."""
    assert caller.certificate is not None
    body = json.loads(base64.b64decode(caller.certificate.header))
    stranger = Ed25519PrivateKey.from_private_bytes(bytes([7] * 32))
    other = json.loads(base64.b64decode(certificate(stranger, package_id)))
    signature = bytearray(base64.b64decode(other["personalMessageSignature"]))
    signature[65:] = bytes.fromhex(caller.public_key)
    body["personalMessageSignature"] = base64.b64encode(signature).decode()
    return base64.b64encode(json.dumps(body).encode()).decode()


@pytest.mark.parametrize("kind", ["foreign", "forged", "old", "future", "package", "revoked"])
async def test_the_key_server_itself_refuses_certificates_that_are_not_valid(
    tmp_path: Path, kind: str
) -> None:
    me = delegate(tmp_path, seed=1)
    stranger = delegate(tmp_path, seed=2)
    caller = me.caller()
    headers = {
        "foreign": certificate(stranger.private, me.package_id),
        "forged": forged(caller, me.package_id),
        "old": certificate(me.private, me.package_id, made_ms=now_ms() - 6 * 60_000),
        "future": certificate(me.private, me.package_id, made_ms=now_ms() + 6 * 60_000),
        "package": certificate(me.private, "0x" + "1" * 64),
        "revoked": certificate(me.private, me.package_id),
    }
    shown = Certificate(headers[kind], me.public_key, "0x", me.package_id, 2e12)
    async with memory(tmp_path) as running:
        await stored(running.memories, caller, SECRET)
        assert len((await running.memories.recall(caller, QUESTION)).hits) == 1
        if kind == "revoked":
            with Registry(Folders(tmp_path).keys) as registry:
                assert registry.revoke(me.account.id, me.public_key)
        with pytest.raises((NoCertificateError, ForbiddenError)):
            await running.memories.recall(replace(caller, certificate=shown), QUESTION)


async def test_a_deactivated_account_opens_nothing_until_it_is_active_again(
    tmp_path: Path,
) -> None:
    me = delegate(tmp_path)
    async with memory(tmp_path) as running:
        await stored(running.memories, me.caller(), SECRET)
        with Registry(Folders(tmp_path).keys) as registry:
            registry.set_active(me.account.id, active=False)
            assert await running.keys.resolve(me.public_key, me.account.id) is None
            with pytest.raises(RelayerError):
                await running.memories.recall(me.caller(), QUESTION)
            registry.set_active(me.account.id, active=True)
        assert len((await running.memories.recall(me.caller(), QUESTION)).hits) == 1


async def test_a_changed_or_swapped_blob_is_dropped_and_not_shown(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        first = await stored(running.memories, caller, SECRET)
        second = await stored(running.memories, caller, "Otto eats tuna.")
        folder = Folders(tmp_path).blobs / caller.owner[2:]
        data = bytearray((folder / str(first.blob_id)).read_bytes())
        data[-1] ^= 1
        (folder / str(first.blob_id)).write_bytes(data)
        answer = await running.memories.recall(caller, QUESTION)
        assert ([hit.text for hit in answer.hits], answer.dropped) == (["Otto eats tuna."], 1)
        with database(tmp_path) as db:
            db.execute(
                "UPDATE memory SET blob_id = ? WHERE blob_id = ?", (second.blob_id, first.blob_id)
            )
        answer = await running.memories.recall(caller, QUESTION)
        assert ([hit.text for hit in answer.hits], answer.dropped) == (["Otto eats tuna."], 1)
