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
        begun = [await begins_request(store, f"{n:08}", sender=str(n)) for n in range(5)]
        assert begun == [True] * sender_pairing.MAX_PENDING + [False] * (
            5 - sender_pairing.MAX_PENDING
        )


@pytest.mark.abuse(47)
async def test_a_sender_of_one_account_is_none_of_another(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await begins_request(store, CODE)
        with pytest.raises(sender_pairing.NoRequestError):
            await approved(store, CODE, "other")
        await approved(store, CODE, "default")
        decisions = [await decided(store, account) for account in ("default", "other")]
    assert [sender is not None for sender in decisions] == [True, False]
