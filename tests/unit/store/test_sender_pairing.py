"""Pairing requests of senders: each code is valid once, for an hour, on one account."""

from pathlib import Path

import pytest

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.runtime.channel_gate import ALPHABET, CODE_LENGTH
from skerry.store import DATABASE, Store, Unit, open_store, sender_pairing

CODE = "ABCDEFGH"
MEMORY = ChannelId("memory")


def message(sender: str = "42", account: str = "default") -> InboundMessage:
    peer = Peer(PeerKind.DIRECT, sender)
    return InboundMessage(MEMORY, AccountId(account), peer, sender, "hi", "m1", 0)


async def begins_request(store: Store, code: str, now: int = 0, **about: str) -> bool:
    arrived = message(**about)
    to = ReplyTo(arrived.channel, arrived.account, arrived.peer, "")
    return await store.write(lambda unit: sender_pairing.ask(unit, arrived, to, code, now))


async def approved(store: Store, code: str, account: str = "", now: int = 1) -> str:
    def write(unit: Unit) -> str:
        scope = ("memory", account) if account else ("", "")
        return sender_pairing.decide(unit, code, scope, now, "owner", rejected=False).sender_id

    return await store.write(write)


async def decided(store: Store, account: str) -> sender_pairing.PairedSender | None:
    return await store.read(lambda reader: sender_pairing.find(reader, message(account=account)))


@pytest.mark.abuse(10)
async def test_a_code_counts_once_and_has_an_end(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        assert await begins_request(store, CODE)
        assert not await begins_request(store, "BBBBBBBB"), "a sender who waits gets no second code"
        assert await approved(store, CODE.lower()) == "42"
        with pytest.raises(sender_pairing.NoRequestError):
            await approved(store, CODE)
        assert await begins_request(store, "CCCCCCCC", sender="43")
        with pytest.raises(sender_pairing.NoRequestError):
            await approved(store, "CCCCCCCC", now=sender_pairing.LASTS_MS)


@pytest.mark.abuse(11)
async def test_few_codes_count_at_a_time_among_very_many(tmp_path: Path) -> None:
    """Only the owner enters codes, so a stranger cannot try any."""
    assert len(ALPHABET) ** CODE_LENGTH > 10**12
    async with open_store(tmp_path / DATABASE) as store:
        most = sender_pairing.MAX_PENDING
        begun = [await begins_request(store, f"{n:08}", sender=str(n)) for n in range(most + 2)]
        assert begun == [True] * most + [False] * 2


async def test_strangers_who_fill_the_queue_keep_another_out_for_minutes_only(
    tmp_path: Path,
) -> None:
    most, later = sender_pairing.MAX_PENDING, sender_pairing.PROTECTED_MS
    async with open_store(tmp_path / DATABASE) as store:
        for number in range(most):
            await begins_request(store, f"{number:08}", number, sender=str(number))
        assert await begins_request(store, CODE, 0, account="other")
        await begins_request(store, "again", later - 2, sender="0")  # does not protect it longer
        assert not await begins_request(store, CODE, later - 1)
        assert await begins_request(store, CODE, later)
        assert not await begins_request(store, "next", later, sender="43")
        waiting = await store.read(lambda reader: sender_pairing.requests(reader, later))
    codes = [row.code for row in waiting if row.account == "default"]
    assert codes == [*(f"{number:08}" for number in range(1, most)), CODE]
    assert len(waiting) == most + 1


@pytest.mark.abuse(47)
async def test_a_sender_of_one_account_is_none_of_another(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await begins_request(store, CODE)
        with pytest.raises(sender_pairing.NoRequestError):
            await approved(store, CODE, "other")
        await approved(store, CODE, "default")
        decisions = [await decided(store, account) for account in ("default", "other")]
    assert [sender is not None for sender in decisions] == [True, False]
