"""`skerry outbox` and `skerry backup` as processes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.store import Unit, outbox
from skerry.store.outbox import PartState
from tests.support.cli import skerry
from tests.support.gateway import Rig, running_gateway

TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "alice"), "m1")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


async def text(rig: Rig, *arguments: str) -> str:
    completed = await skerry(rig, *arguments)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.decode()


async def test_a_person_lists_shows_sends_again_and_drops(rig: Rig) -> None:
    assert await text(rig, "outbox", "list") == "All parts are delivered.\n"

    def work(unit: Unit) -> None:
        outbox.add(unit, RunId("r1"), 0, TO, ["hello\x1b[31m there", "two", "three"], 5)
        for serial in (1, 3):
            outbox.set_error(unit, serial, "blocked by the platform")
            outbox.mark(unit, serial, PartState.FAILED, 6)

    await rig.store.write(work)
    listed = await skerry(rig, "outbox", "list")
    assert b"blocked by the platform" in listed.stdout
    assert b"\x1b[31m" not in listed.stdout
    assert b"skerry outbox retry PART" in listed.stderr
    assert "No part is unknown." in await text(rig, "outbox", "list", "--state", "unknown")
    shown = await text(rig, "outbox", "show", "1")
    assert "memory/default/alice" in shown
    assert "hello[31m there" in shown
    assert await text(rig, "outbox", "drop", "2") == "Part 2 was dropped.\n"
    assert "Part 3 will be sent again." in await text(rig, "outbox", "retry", "--all")
    assert await text(rig, "outbox", "retry", "--all") == "No part has failed.\n"
    rows = json.loads(await text(rig, "outbox", "list", "--json"))
    assert [(row["serial"], row["state"]) for row in rows] == [(1, "pending"), (3, "pending")]
    refused = await skerry(rig, "outbox", "show", "9")
    assert b"skerry outbox list" in refused.stderr
    refused = await skerry(rig, "outbox", "drop", "9")
    assert refused.returncode == 1
    assert b"skerry outbox list" in refused.stderr


async def test_all_failed_parts_are_sent_again_also_when_a_list_has_not_all(rig: Rig) -> None:
    number = 1005

    def work(unit: Unit) -> None:
        outbox.add(unit, RunId("r1"), 0, TO, ["x"] * number, 5)
        unit.execute("UPDATE outbox SET state = 'failed'")

    await rig.store.write(work)
    done = await skerry(rig, "outbox", "list")
    assert b"These are the 1000 oldest parts; there may be more." in done.stderr
    answer = json.loads(await text(rig, "outbox", "retry", "--all", "--json"))
    assert answer["parts"] == list(range(1, number + 1))


async def test_backups_are_made_listed_and_checked_beside_a_gateway(rig: Rig) -> None:
    assert "skerry backup create" in await text(rig, "backup", "list")
    made = json.loads(await text(rig, "backup", "create", "--json"))
    assert made["name"] in await text(rig, "backup", "list")
    checked = await text(rig, "backup", "verify")
    assert checked == f"current: sound\n{made['name']}: sound\n"
    assert await text(rig, "backup", "verify", made["name"]) == f"{made['name']}: sound\n"
    unknown = await skerry(rig, "backup", "verify", "nothing")
    assert unknown.returncode == 1
    assert b"skerry backup list" in unknown.stderr
