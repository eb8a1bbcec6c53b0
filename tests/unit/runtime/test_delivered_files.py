"""Copies of files in the outbox: kept until their part is sent, and sent once with the mark."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from skerry.config.messages import UnknownDelivery
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import RunId
from skerry.model.inbound import AttachmentKind
from skerry.model.outbound import (
    PLAIN,
    Additions,
    Content,
    OutboundMedia,
    OutboundPart,
    Receipt,
    Settlement,
)
from skerry.ports.channel import Capabilities
from skerry.runtime.delivery import REPEATED
from skerry.runtime.media_out import OUTBOUND
from skerry.store import outbox
from skerry.store.outbox import PartState
from tests.unit.runtime.test_delivery import RECEIPT, Adapter, Post, post, to

FILES = Capabilities(media_out=True)


@dataclass
class Filing(Adapter):
    """Takes files."""

    capabilities: Capabilities = FILES

    async def send(self, part: OutboundPart) -> Receipt:
        if part.more != PLAIN:
            assert part.more.media is not None
            assert Path(part.more.media.path).read_bytes() == b"png"
        await Adapter.send(self, part)
        return RECEIPT


async def file(one: Post, home: Path) -> Path:
    """Adds a part with a file to the outbox; returns the copy."""
    folder = home / "media" / OUTBOUND
    folder.mkdir(parents=True)
    path = folder / "0-chart.png"
    path.write_bytes(b"png")
    more = Additions(media=OutboundMedia(AttachmentKind.IMAGE, str(path), "image/png"))
    await one.store.write(
        lambda unit: outbox.add(unit, RunId("r"), 0, to("ann"), [Content("", more)], 1)
    )
    return path


async def test_the_copy_goes_when_its_part_was_sent(tmp_path: Path) -> None:
    async with post(tmp_path, Filing()) as one:
        path = await file(one, tmp_path)
        await one.sender.flush()
        assert (one.adapter.sent, path.exists()) == ([""], False)


@pytest.mark.parametrize("failure", [DeliveryRefusedError("too large"), OSError("no route")])
async def test_the_copy_stays_while_somebody_may_send_it_again(
    tmp_path: Path, failure: Exception
) -> None:
    async with post(tmp_path, Filing(fails=lambda _: failure)) as one:
        path = await file(one, tmp_path)
        await one.sender.flush()
        assert path.exists()


async def test_a_platform_that_may_refuse_it_later_leaves_it(tmp_path: Path) -> None:
    adapter = Filing(capabilities=Capabilities(media_out=True, late_refusals=True))
    async with post(tmp_path, adapter) as one:
        path = await file(one, tmp_path)
        await one.sender.flush()
        assert (one.adapter.sent, path.exists()) == ([""], True)


async def test_a_file_that_may_be_there_is_repeated_once_with_the_mark(tmp_path: Path) -> None:
    async with post(tmp_path, Filing(settles=Settlement.UNKNOWN)) as one:
        one.sender.on_unknown = lambda: UnknownDelivery.REPEAT
        path = await file(one, tmp_path)
        await one.mark(1, PartState.SENDING)
        await one.sender.flush()
        assert [text.strip() for text in one.adapter.sent] == [REPEATED.strip()[:10].strip()]
        assert not path.exists()
