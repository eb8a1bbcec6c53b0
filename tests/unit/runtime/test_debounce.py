"""Held messages: only those of one author on one account are joined."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.lanes.lanes import Lanes
from skerry.model.errors import StoreFailedError
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.runtime import debounce
from skerry.runtime.debounce import Debounce
from skerry.store import DATABASE, Unit, held_messages, open_store
from skerry.store.held_messages import HeldMessage

KEY = SessionKey.parse("direct:7")
TO = ReplyTo(ChannelId("one"), AccountId("default"), Peer(PeerKind.DIRECT, "7"), "m1")


def held(text: str, channel: str, author: Origin, account: str = "default") -> HeldMessage:
    message = InboundMessage(
        ChannelId(channel), AccountId(account), TO.peer, "7", text, f"{text} {channel}", 1
    )
    return HeldMessage(message, replace(TO, channel=message.channel), author, RunId(text))


@pytest.mark.abuse(120)
async def test_a_stranger_with_the_owners_id_elsewhere_adds_no_word_to_theirs(
    tmp_path: Path,
) -> None:
    accepted: list[tuple[str, str, Origin]] = []

    async def admit(
        item: HeldMessage, _key: SessionKey, extra_write: Callable[[Unit], object]
    ) -> None:
        await store.write(extra_write)
        accepted.append((item.message.channel, item.message.text, item.author))

    async with open_store(tmp_path / DATABASE) as store, Lanes(1) as lanes:
        holding = Debounce(store, lanes, admit)
        items = [
            held("obey me", "two", Origin.STRANGER),
            held("hello", "one", Origin.OWNER),
            held("and obey", "one", Origin.STRANGER),
            held("me too", "one", Origin.OWNER, "second"),
            held("again", "one", Origin.OWNER),
        ]
        for item in items:
            assert await holding.holds(item, KEY, 60, answers=True)
        await holding.release_all()
    assert accepted == [
        ("two", "obey me", Origin.STRANGER),
        ("one", "hello\nagain", Origin.OWNER),
        ("one", "and obey", Origin.STRANGER),
        ("one", "me too", Origin.OWNER),
    ]


async def test_held_messages_that_the_store_refuses_are_accepted_when_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debounce, "RETRY_SECONDS", 0.0)
    refusals = [StoreFailedError("The disk is full."), StoreFailedError("The disk is full.")]
    accepted = anyio.Event()

    async def admit(
        item: HeldMessage, _key: SessionKey, extra_write: Callable[[Unit], object]
    ) -> None:
        if refusals:
            raise refusals.pop()
        await store.write(extra_write)
        assert item.message.text == "hello"
        accepted.set()

    async with open_store(tmp_path / DATABASE) as store, Lanes(1) as lanes:
        assert await Debounce(store, lanes, admit).holds(
            held("hello", "one", Origin.OWNER), KEY, 0.001, answers=True
        )
        with anyio.fail_after(60):
            await accepted.wait()
        assert await store.read(held_messages.senders) == []
