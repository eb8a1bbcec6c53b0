"""Files that a Slack app sends: shared once, in their thread, or not at all."""

from pathlib import Path

import pytest

from skerry.channels.slack import wire
from skerry.channels.slack.adapter import SlackAdapter, open_account
from skerry.channels.slack.config import SlackAccount
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import AttachmentKind, Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, OutboundMedia, OutboundPart, Settlement
from skerry.model.undelivered import DeliveryDelayedError
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.CHANNEL, "C1"), "1.2", "1700.5")


def opened(server: SlackServer) -> SlackAdapter:
    file = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
    host = ChannelHost(AccountId("default"), SystemClock())
    return open_account(SlackAccount.model_validate(file), host)


def part(path: Path, number: int = 0) -> OutboundPart:
    media = OutboundMedia(AttachmentKind.FILE, str(path), "text/plain", "tides.txt")
    return OutboundPart(1, RunId("r"), 0, number, TO, "*look*", Additions(media=media))


async def test_a_file_is_shared_in_its_thread_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"high at nine")
    async with SlackServer() as server:
        adapter = opened(server)
        receipt = await adapter.send(part(path))
        (file,) = server.shared("C1")
        assert (file.title, file.data, file.thread) == ("tides.txt", b"high at nine", "1700.5")
        assert (file.comment, len(receipt.platform_ids)) == ("_look_", 1)
        assert await adapter.settle(part(path)) is Settlement.DELIVERED
        assert await adapter.settle(part(path, 1)) is Settlement.UNKNOWN
        assert server.faults == []


async def test_nothing_is_shared_when_a_step_before_fails(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"x")
    async with SlackServer() as server:
        adapter = opened(server)
        server.fail("files.getUploadURLExternal", "ratelimited", 429, **{"retry-after": "7"})
        with pytest.raises(DeliveryDelayedError) as delayed:
            await adapter.send(part(path))
        assert delayed.value.seconds == pytest.approx(7)
        server.fail("files.getUploadURLExternal", "", 500)
        with pytest.raises(DeliveryDelayedError):
            await opened(server).send(part(path))
        server.fail("files.getUploadURLExternal", "file_uploads_disabled")
        with pytest.raises(DeliveryRefusedError):
            await opened(server).send(part(path))
        server.fail("files.completeUploadExternal", "channel_not_found")
        with pytest.raises(DeliveryRefusedError):
            await opened(server).send(part(path))
        with pytest.raises(DeliveryRefusedError, match="cannot be read"):
            await opened(server).send(part(tmp_path / "gone"))
        assert server.shared("C1") == []
