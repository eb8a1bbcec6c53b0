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
from tests.unit.runtime.test_delivery import RECEIPT, Adapter, OutboxRig, post, to

FILES = Capabilities(media_out=True)


@dataclass
class Filing(Adapter):
    """Takes files."""

    capabilities: Capabilities = FILES

    async def send(self, part: OutboundPart) -> Receipt:
        if part.additions != PLAIN:
            assert part.additions.media is not None
            assert Path(part.additions.media.path).read_bytes() == b"png"
        await Adapter.send(self, part)
        return RECEIPT


async def file(rig: OutboxRig, home: Path) -> Path:
    """Adds a part with a file to the outbox; returns the copy."""
    folder = home / "media" / OUTBOUND
    folder.mkdir(parents=True)
    path = folder / "0-chart.png"
    path.write_bytes(b"png")
    additions = Additions(media=OutboundMedia(AttachmentKind.IMAGE, str(path), "image/png"))
    await rig.store.write(
        lambda unit: outbox.add(unit, RunId("r"), 0, to("ann"), [Content("", additions)], 1)
    )
    return path


async def test_the_copy_goes_when_its_part_was_sent(tmp_path: Path) -> None:
    async with post(tmp_path, Filing()) as rig:
        path = await file(rig, tmp_path)
        await rig.sender.flush()
        assert (rig.adapter.sent, path.exists()) == ([""], False)


@pytest.mark.parametrize("failure", [DeliveryRefusedError("too large"), OSError("no route")])
async def test_the_copy_stays_while_somebody_may_send_it_again(
    tmp_path: Path, failure: Exception
) -> None:
    async with post(tmp_path, Filing(fails=lambda _: failure)) as rig:
        path = await file(rig, tmp_path)
        await rig.sender.flush()
        assert path.exists()


async def test_a_platform_that_may_refuse_it_later_leaves_it(tmp_path: Path) -> None:
    adapter = Filing(capabilities=Capabilities(media_out=True, late_refusals=True))
    async with post(tmp_path, adapter) as rig:
        path = await file(rig, tmp_path)
        await rig.sender.flush()
        assert (rig.adapter.sent, path.exists()) == ([""], True)


async def test_a_file_that_may_be_there_is_repeated_once_with_the_mark(tmp_path: Path) -> None:
    async with post(tmp_path, Filing(settles=Settlement.UNKNOWN)) as rig:
        rig.sender.on_unknown = lambda: UnknownDelivery.REPEAT
        path = await file(rig, tmp_path)
        await rig.mark(1, PartState.SENDING)
        await rig.sender.flush()
        assert [text.strip() for text in rig.adapter.sent] == [REPEATED.strip()[:10].strip()]
        assert not path.exists()
