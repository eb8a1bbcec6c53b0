"""A restore admits no sender whom the owner has removed since, and repeats no held message."""

from functools import partial
from pathlib import Path

import pytest

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.store import DATABASE, Unit, backups, held_messages, open_store, sender_pairing
from skerry.store.backups import Backup, BackupKind
from skerry.store.held_messages import HeldMessage
from skerry.store.restore import restore
from tests.support.damage import break_pages

NOW = 1_700_000_000_000


def arrived(sender: str) -> InboundMessage:
    peer = Peer(PeerKind.DIRECT, sender)
    return InboundMessage(ChannelId("memory"), AccountId("default"), peer, sender, "hi", "m", 0)


def decide(unit: Unit, sender: str, now: int, *, rejected: bool = False) -> None:
    message = arrived(sender)
    sender_pairing.ask(
        unit,
        message,
        ReplyTo(message.channel, message.account, message.peer, ""),
        f"CODE{sender.upper()}",
        now,
    )
    sender_pairing.decide(unit, f"CODE{sender.upper()}", ("", ""), now, "ann", rejected=rejected)


async def people(tmp_path: Path) -> Backup:
    """Approves and rejects senders and makes a backup; then decides otherwise about some."""
    async with open_store(tmp_path / DATABASE) as store:
        for name in ("kept", "gone", "turned"):
            await store.write(partial(decide, sender=name, now=NOW))
        await store.write(lambda unit: decide(unit, "bad", NOW, rejected=True))
        to = ReplyTo(ChannelId("memory"), AccountId("default"), arrived("held").peer, "")
        held = HeldMessage(arrived("held"), to, Origin.KNOWN, RunId("r1"))
        await store.write(lambda unit: held_messages.add(unit, "agent:main:main", held))
        await store.write(lambda unit: sender_pairing.ask(unit, arrived("waits"), to, "WAITS", NOW))
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        gone = ("memory", "default", "gone")
        await store.write(lambda unit: sender_pairing.remove(unit, gone, "ann", NOW + 1))
        await store.write(
            lambda unit: sender_pairing.remove(unit, (*gone[:2], "turned"), "ann", NOW + 1)
        )
        await store.write(lambda unit: decide(unit, "turned", NOW + 2, rejected=True))
        await store.write(lambda unit: decide(unit, "later", NOW + 2))
        await store.write(
            lambda unit: sender_pairing.decide(
                unit, "WAITS", ("", ""), NOW + 2, "ann", rejected=True
            )
        )
        await store.write(
            lambda unit: held_messages.take(unit, "agent:main:main", held.sender, 100)
        )
    return backup


async def decisions(tmp_path: Path) -> tuple[dict[str, bool], list[str], list[tuple[str, str]]]:
    async with open_store(tmp_path / DATABASE) as store:
        senders = await store.read(sender_pairing.senders)
        waiting = await store.read(lambda reader: sender_pairing.requests(reader, NOW))
        held = await store.read(held_messages.senders)
    return {row.sender_id: row.rejected for row in senders}, [row.code for row in waiting], held


async def test_a_restored_backup_lets_no_sender_in_and_repeats_no_message(tmp_path: Path) -> None:
    backup = await people(tmp_path)
    restored = restore(tmp_path, backup, NOW)
    after = {"kept": False, "turned": True, "later": False, "bad": True, "waits": True}
    assert await decisions(tmp_path) == (after, [], [])
    assert restored.devices.senders_dropped == 2


@pytest.mark.parametrize("table", ["paired_sender", None])
async def test_where_the_decisions_about_senders_are_unknown_only_rejections_remain(
    tmp_path: Path, table: str | None
) -> None:
    backup = await people(tmp_path)
    if table is None:
        (tmp_path / DATABASE).unlink()
    else:
        break_pages(tmp_path / DATABASE, table)
    restored = restore(tmp_path, backup, NOW)
    senders, codes, _ = await decisions(tmp_path)
    assert set(senders.values()) == {True}
    assert "bad" in senders
    assert codes == []
    assert restored.devices.senders_dropped >= 1
