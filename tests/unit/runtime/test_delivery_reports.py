"""Later reports of a platform about parts that it had accepted."""

from pathlib import Path

import pytest

from skerry.store import outbox
from skerry.store.outbox import PartState
from tests.unit.runtime.test_delivery import Adapter, post, to


async def test_a_part_that_was_accepted_and_not_delivered_is_a_dead_letter(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as rig:
        rig.sender.owner = lambda: to("owner")
        await rig.write("alice", "a/1", "a2")
        await rig.sender.flush()
        assert await rig.sender.report_refused("alice-a/1/0/1", "The person must write first.")
        (failed,) = await rig.store.read(
            lambda reader: outbox.undelivered(reader, [PartState.FAILED])
        )
        assert (failed.waiting.part.text, failed.error) == ("a2", "The person must write first.")
        await rig.sender.flush()
        assert rig.adapter.sent[:2] == ["a/1", "a2"]
        assert "could not be delivered" in rig.adapter.sent[2]
        repeated = await rig.sender.report_refused("alice-a/1/0/1", "It is said twice.")
        assert repeated
        await rig.sender.flush()
        assert len(rig.adapter.sent) == 3


@pytest.mark.parametrize(
    "nonce", ["", "x", "alice-a1/0", "alice-a1/0/9", "alice-a1/x/0", "bob/0/0", "alice-a1/0/²"]
)
async def test_a_report_about_no_part_of_ours_changes_nothing(tmp_path: Path, nonce: str) -> None:
    async with post(tmp_path, Adapter()) as rig:
        await rig.write("alice", "a1")
        await rig.sender.flush()
        assert await rig.sender.report_refused(nonce, "no")
        assert await rig.counts() == {}


async def test_a_report_about_a_part_of_another_account_changes_nothing(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as rig:
        await rig.write("alice", "a1")
        await rig.sender.flush()
        rig.adapter.account = type(rig.adapter.account)("other")
        assert await rig.sender.report_refused("alice-a1/0/0", "no")
        assert await rig.counts() == {}


async def test_a_report_that_overtakes_the_sending_is_to_be_repeated(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as rig:
        await rig.write("alice", "a1")
        await rig.mark(1, PartState.SENDING)
        assert not await rig.sender.report_refused("alice-a1/0/0", "no")
        assert await rig.counts() == {"sending": 1}
        await rig.mark(1, PartState.DROPPED)
        assert await rig.sender.report_refused("alice-a1/0/0", "no")
