"""Decisions of a person on a part that the platform has not accepted."""

from functools import partial
from pathlib import Path

import pytest

from skerry.model.undelivered import PartError
from skerry.store import outbox
from skerry.store.outbox import PartState
from tests.unit.runtime.test_delivery import Adapter, broken_for, post, to


@pytest.mark.parametrize("cannot_say", [False, True], ids=["known", "cannot say"])
async def test_a_part_that_waits_for_its_next_try_is_retried_or_dropped_when_a_person_says_so(
    tmp_path: Path, *, cannot_say: bool
) -> None:
    adapter = Adapter(fails=broken_for("alice"))
    async with post(tmp_path, adapter) as one:
        await one.write("alice", "a1", "a2")
        await one.sender.flush()
        if cannot_say:  # whether it arrived is asked before the next try
            adapter.settles = TimeoutError("no answer")
            one.sender.hurry(to("alice").peer)
            await one.sender.flush()
            adapter.settles = None
        kept = await one.store.read(lambda reader: outbox.get(reader, 1))
        assert kept is not None
        assert (kept.waiting.state, kept.waiting.retry_at > 0) == (PartState.SENDING, True)
        adapter.fails = lambda _: None
        await one.store.write(lambda unit: outbox.retry(unit, 1, 6))
        await one.store.write(lambda unit: outbox.drop(unit, 2, 6))
        one.sender.hurry(to("alice").peer)
        await one.sender.flush()
        assert adapter.sent == ["a1"]
        kept = await one.store.read(lambda reader: outbox.get(reader, 1))
        assert kept is not None
        assert (kept.waiting.state, kept.waiting.retry_at) == (PartState.SENT, 0)


async def test_a_dropped_part_no_longer_holds_its_conversation_back(tmp_path: Path) -> None:
    adapter = Adapter(fails=lambda part: OSError("no route") if part.text == "a1" else None)
    async with post(tmp_path, adapter) as one:
        await one.write("alice", "a1", "a2")
        await one.sender.flush()
        await one.store.write(lambda unit: outbox.drop(unit, 1, 6))
        one.sender.hurry(to("alice").peer)
        await one.sender.flush()
        assert (adapter.sent, await one.counts()) == (["a2"], {})


async def test_a_part_is_left_alone_while_the_platform_gets_it(tmp_path: Path) -> None:
    async with post(tmp_path, Adapter()) as one:
        await one.write("alice", "a1")
        await one.mark(1, PartState.SENDING)
        for act in (outbox.retry, outbox.drop):
            with pytest.raises(PartError, match="is being sent"):
                await one.store.write(partial(act, serial=1, now=7))
        await one.mark(1, PartState.SENDING)
        await one.store.write(lambda unit: outbox.put_off(unit, 1, "no", 9, maybe_sent=True))
        await one.store.write(lambda unit: outbox.drop(unit, 1, 8))
        await one.store.write(lambda unit: outbox.put_off(unit, 1, "no", 9, maybe_sent=False))
        assert await one.counts() == {}
