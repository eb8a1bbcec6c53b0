"""The audit log: each change of an entry, its position or its facts is detected."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from skerry.store import DATABASE, Unit, audit, open_store
from skerry.store.audit import FIRST, Anchor

EMPTY = hashlib.sha256(b"{}").hexdigest()
SPOILED = {
    "another time": ("UPDATE audit SET at = at + 1 WHERE seq = 2", 2),
    "another kind": ("UPDATE audit SET kind = 'x' WHERE seq = 2", 2),
    "other facts": ("UPDATE audit SET body = '{}' WHERE seq = 2", 2),
    "other facts with their digest": (
        f"UPDATE audit SET body = '{{}}', digest = '{EMPTY}' WHERE seq = 2",  # noqa: S608 - a constant
        2,
    ),
    "removed": ("DELETE FROM audit WHERE seq = 2", 2),
    "removed and closed up": ("DELETE FROM audit WHERE seq = 1", 1),
    "removed at the end": ("DELETE FROM audit WHERE seq = 3", 3),
    "all removed": ("DELETE FROM audit WHERE seq > 0", 1),
    "another hash": ("UPDATE audit SET hash = 'x' WHERE seq = 3", 3),
}


def three(unit: Unit) -> None:
    for number in (1, 2, 3):
        audit.append(unit, number, "approval.requested", {"id": f"a{number}"})


async def test_entries_are_numbered_and_each_fits_the_one_before(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        assert await store.read(audit.verify) == audit.AuditReport(0, FIRST)
        await store.write(three)
        report = await store.read(audit.verify)
        entries = await store.read(lambda reader: audit.last(reader, 2))
    assert (report.entries, report.broken) == (3, None)
    assert [(entry.seq, entry.body) for entry in entries] == [(2, {"id": "a2"}), (3, {"id": "a3"})]
    assert report.head == entries[-1].hash


async def test_the_hash_of_an_entry_is_known(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: audit.append(unit, 5, "k", {}))
        (entry,) = await store.read(lambda reader: audit.last(reader, 9))
    assert entry.hash == audit.chained(FIRST, 1, 5, "k", EMPTY)
    assert entry.hash == "ed7fd11d4960b5d26f72b1b19747b8cc0531445e9168f4c484a10a3c32f05e7a"


@pytest.mark.parametrize(("statement", "number"), SPOILED.values(), ids=SPOILED)
async def test_what_was_changed_behind_the_log_is_noticed(
    tmp_path: Path, statement: str, number: int
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(three)
        await store.write(lambda unit: unit.execute(statement))
        report = await store.read(audit.verify)
    assert report.broken == number
    assert report.reason


async def test_an_entry_cut_off_stays_noticed_when_others_follow(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(three)
        await store.write(lambda unit: unit.execute("DELETE FROM audit WHERE seq = 3"))
        await store.write(lambda unit: audit.append(unit, 4, "k", {}))
        report = await store.read(audit.verify)
        entries = await store.read(lambda reader: audit.last(reader, 9))
    assert (report.broken, report.reason) == (3, "entry 3 is missing")
    assert [entry.seq for entry in entries] == [1, 2, 4]


async def test_erased_facts_leave_the_chain_whole(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(three)
        await store.write(lambda u: u.execute("UPDATE audit SET body = NULL WHERE seq = 2"))
        report = await store.read(audit.verify)
        entries = await store.read(lambda reader: audit.last(reader, 9))
    assert (report.entries, report.broken, report.erased) == (3, None, 1)
    bodies: list[Any] = [entry.body for entry in entries]
    assert bodies == [{"id": "a1"}, None, {"id": "a3"}]


def three_others(unit: Unit) -> None:
    """Rebuilds the chain with other facts, so that it is consistent in itself."""
    unit.execute("DELETE FROM audit")
    for number in (1, 2, 3):
        audit.append(unit, number, "approval.requested", {"id": f"b{number}"})


async def test_a_chain_that_was_rebuilt_does_not_fit_an_anchor_of_before(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(three)
        anchor = (await store.read(audit.verify)).anchor
        assert Anchor.parse(f" {anchor}\n") == anchor
        await store.write(lambda unit: audit.append(unit, 4, "k", {}))
        report = await store.read(lambda reader: audit.verify(reader, [anchor, Anchor(0, FIRST)]))
        assert (report.entries, report.broken) == (4, None)
        await store.write(three_others)
        assert (await store.read(audit.verify)).broken is None
        report = await store.read(lambda reader: audit.verify(reader, [anchor]))
        assert (report.broken, report.reason) == (3, "entry 3 has another hash than its anchor")
        later_anchor = Anchor(9, anchor.hash)
        report = await store.read(lambda reader: audit.verify(reader, [later_anchor]))
        assert (report.broken, "3 entries" in report.reason) == (9, True)


@pytest.mark.parametrize("text", ["", "3", "3:abc", "-1:" + "0" * 64, "x:" + "0" * 64])
def test_what_is_no_anchor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an anchor"):
        Anchor.parse(text)
