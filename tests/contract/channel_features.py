"""Clauses on the optional abilities of channel adapters, for adapters that declare them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from skerry.model.errors import DeliveryRefusedError
from skerry.model.inbound import AttachmentKind, ReplyTo
from skerry.model.outbound import Additions, OutboundMedia, OutboundPart, Receipt
from skerry.ports.channel import ChannelAdapter, Edits, Reacts, capabilities
from tests.contract.channels import Town, part, taken

PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(40)


def with_file(adapter: ChannelAdapter, town: Town, path: Path, number: int = 0) -> OutboundPart:
    media = OutboundMedia(AttachmentKind.IMAGE, str(path), "image/png", "chart.png")
    return replace(part(adapter, town.alice, "", number), additions=Additions(media=media))


async def has_the_methods_of_what_it_names(town: Town, _: Path) -> None:
    adapter = town.adapter
    offers = capabilities(adapter)
    methods = {"edit": offers.edits, "react": offers.reactions, "fetch": offers.media_in}
    assert [name for name, named in methods.items() if named and not hasattr(adapter, name)] == []


async def sends_a_file_without_words(town: Town, folder: Path) -> None:
    adapter = town.adapter
    if not capabilities(adapter).media_out:
        return
    path = folder / "copy"
    path.write_bytes(PNG)
    receipt = await adapter.send(with_file(adapter, town, path))
    assert isinstance(receipt, Receipt)
    await adapter.send(part(adapter, town.alice, "behind it", 1))
    assert town.received()[-1] == (town.alice.id, "behind it")


async def refuses_a_file_that_is_gone_for_good(town: Town, folder: Path) -> None:
    adapter = town.adapter
    if not capabilities(adapter).media_out:
        return
    with pytest.raises(DeliveryRefusedError):
        await adapter.send(with_file(adapter, town, folder / "gone"))
    assert town.received() == []


async def edits_the_message_that_it_sent(town: Town, _: Path) -> None:
    adapter = town.adapter
    if not isinstance(adapter, Edits):
        return
    sent = part(adapter, town.alice, "the begin")
    receipt = await adapter.send(sent)
    for _again in range(2):  # a kill may repeat the last edit
        await adapter.edit(sent.to, receipt.platform_ids[0], "the begin and the end")
    assert town.received()[-1] == (town.alice.id, "the begin and the end")
    assert len(receipt.platform_ids) == 1


async def sets_and_removes_a_reaction_and_sends_nothing(town: Town, _: Path) -> None:
    adapter = town.adapter
    if not isinstance(adapter, Reacts):
        return
    town.say("hello", town.alice)
    (message,) = await taken(adapter, 1)
    to = ReplyTo(message.channel, message.account, message.peer, message.message_id)
    await adapter.react(to, "👍")
    await adapter.react(to, "")
    await adapter.send(part(adapter, town.alice, "an answer"))
    texts = [text for _, text in town.received() if text.strip() and text != "👍"]
    assert texts == ["an answer"]


FeatureClause = Callable[[Town, Path], Awaitable[None]]
FEATURES: Final[list[FeatureClause]] = [
    has_the_methods_of_what_it_names,
    sends_a_file_without_words,
    refuses_a_file_that_is_gone_for_good,
    edits_the_message_that_it_sent,
    sets_and_removes_a_reaction_and_sends_nothing,
]
