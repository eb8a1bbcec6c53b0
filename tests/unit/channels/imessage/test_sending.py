"""The iMessage adapter sends texts, files and tapbacks, and settles parts."""

from pathlib import Path

import msgspec
import pytest

from skerry.channels.imessage import adapter as module
from skerry.channels.imessage import api
from skerry.model.errors import DeliveryRefusedError
from skerry.model.inbound import Attachment, AttachmentKind, Peer, PeerKind
from skerry.model.outbound import Additions, OutboundMedia, Settlement
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_errors import PlatformError
from skerry.testing.bluebubbles_server import PASSWORD
from skerry.testing.http_server import ServedResponse
from tests.unit.channels.imessage.mac import CHAT, NOW, TO, Rig, part, running, taken


async def test_a_part_names_its_chat_itself_and_what_it_quotes(rig: Rig) -> None:
    adapter = rig.adapter()
    async with running(adapter):
        rig.server.say("What?")
        to = msgspec.structs.replace(TO, quote="GUID-2")
        receipt = await adapter.send(part("**this**", to=to))
        by_address = msgspec.structs.replace(TO, peer=Peer(PeerKind.DIRECT, "+491701"))
        await adapter.send(part("more", number=1, to=by_address))
    first, second = rig.server.sends
    assert receipt.platform_ids == (rig.server.sent[0]["guid"],)
    assert (first["message"], first["selectedMessageGuid"]) == ("this", "GUID-2")
    assert first["method"] == "private-api"
    assert first["tempGuid"] != second["tempGuid"]
    assert second["chatGuid"] == CHAT
    assert rig.server.faults == []


async def test_without_the_private_api_a_script_sends_and_nothing_else_is_asked(rig: Rig) -> None:
    rig.server.private_api = False
    adapter = rig.adapter()
    async with running(adapter):
        await adapter.send(part("hello", to=msgspec.structs.replace(TO, quote="GUID-2")))
        await adapter.typing(TO)
        with pytest.raises(DeliveryRefusedError):
            await adapter.react(TO, "👍")
    assert rig.server.sends[0]["method"] == "apple-script"
    assert (rig.server.typed, rig.server.faults) == ([], [])


async def test_typing_reading_and_tapbacks(rig: Rig) -> None:
    adapter = rig.adapter()
    number = rig.server.say("hello")
    to = msgspec.structs.replace(TO, message_id=number)
    async with running(adapter):
        await adapter.typing(to)
        await adapter.react(to, "👍")
        await adapter.react(to, "")
        await adapter.react(to, "")
        with pytest.raises(DeliveryRefusedError, match="no tapback"):
            await adapter.react(to, "🦭")
    assert (rig.server.read, rig.server.typed) == ([CHAT], [CHAT])
    assert rig.server.reactions == [(number, "like"), (number, "-like")]
    assert rig.server.faults == []


async def test_files_go_both_ways(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    path = str(tmp_path / "f")
    media = OutboundMedia(AttachmentKind.AUDIO, path, "audio/mpeg", "a.mp3", voice=True)
    adapter = rig.adapter()
    async with running(adapter):
        receipt = await adapter.send(part("listen", Additions(media=media)))
        assert len(receipt.platform_ids) == 2
        file, text = rig.server.sends
        assert (file["name"], file["isAudioMessage"], text["message"]) == (
            "a.mp3",
            "true",
            "listen",
        )
        assert rig.server.files["FILE-0"] == b"data"
        assert await adapter.settle(part("listen", Additions(media=media))) is Settlement.DELIVERED
        fetched = Attachment(AttachmentKind.FILE, "FILE-0", name="f")
        assert await adapter.fetch(fetched, 100) == b"data"
        for broken in (
            Attachment(AttachmentKind.FILE, "FILE-0", name="f", size=11),
            Attachment(AttachmentKind.FILE, "../../x", name="f"),
        ):
            with pytest.raises(MediaError):
                await adapter.fetch(broken, 10)
        with pytest.raises(MediaError, match="more than 3 bytes"):
            await adapter.fetch(fetched, 3)
        gone = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "g"))
        with pytest.raises(DeliveryRefusedError, match="cannot be read"):
            await adapter.send(part("", Additions(media=gone), 1))
    rig.server.faults.clear()


async def test_a_file_whose_text_failed_is_never_sent_again_unasked(
    rig: Rig, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"data")
    media = Additions(media=OutboundMedia(AttachmentKind.FILE, str(tmp_path / "f"), name="f.pdf"))
    adapter = rig.adapter()
    rig.server.planned += [(ServedResponse.of({"data": {"guid": "x"}}), True)]
    rig.server.fail(400, "no")
    with pytest.raises(ConnectionError):
        await adapter.send(part("words", media))
    assert await adapter.settle(part("words", media)) is Settlement.UNKNOWN


async def test_a_part_that_was_never_sent_is_absent_once_that_is_sure(rig: Rig) -> None:
    adapter = rig.adapter()
    assert await adapter.settle(part("x")) is Settlement.UNKNOWN
    rig.server.add(CHAT, "x", isFromMe=True)  # the same words, of before
    rig.server.planned.append((ServedResponse(cut=True), False))
    with pytest.raises(PlatformError):
        await adapter.send(part("x"))
    with pytest.raises(PlatformError, match="not in its chat yet"):
        await adapter.settle(part("x"))
    rig.clock.advance(module.TEXT_SETTLED_MS)
    rig.server.say("a person writes")
    assert await rig.adapter().settle(part("x")) is Settlement.ABSENT
    rig.server.add(CHAT, "typed on the Mac", isFromMe=True)
    assert await adapter.settle(part("x")) is Settlement.UNKNOWN
    rig.server.add(CHAT, "x", isFromMe=True)
    assert await adapter.settle(part("x")) is Settlement.DELIVERED


@pytest.mark.parametrize(
    ("status", "message", "code", "error"),
    [
        (500, "Message Send Error", 22, DeliveryRefusedError),
        (400, "no such chat", None, DeliveryRefusedError),
        (400, "Message is already queued to be sent!", None, PlatformError),
        (500, "Message Send Error", None, PlatformError),
        (401, "no", None, DeliveryDelayedError),
    ],
)
async def test_each_refusal_is_final_or_not(
    rig: Rig, status: int, message: str, code: int | None, error: type[Exception]
) -> None:
    rig.server.fail(status, message, code)
    with pytest.raises(error):
        await rig.adapter().send(part("x"))


async def test_a_wrong_password_needs_a_login_and_is_in_no_message(rig: Rig) -> None:
    rig.server.locked = True
    state = await rig.adapter().probe()
    assert state.state is ConnectionState.NEEDS_LOGIN
    assert "skerry channels login imessage" in state.remedy
    with pytest.raises(DeliveryDelayedError) as caught:
        await rig.adapter().send(part("x"))
    away = rig.adapter(apiRoot="http://127.0.0.1:9")
    with pytest.raises(DeliveryDelayedError) as unreachable:
        await away.send(part("x"))
    for text in (state.message, str(caught.value), str(unreachable.value)):
        assert PASSWORD not in text
        assert "password=" not in text


async def test_very_many_new_messages_are_read_in_windows_of_rows(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PAGE", 10)
    monkeypatch.setattr(api, "_MAX_PAGES", 4)
    monkeypatch.setattr(module, "WINDOW", 30)
    async with running(rig.adapter()):
        pass
    for number in range(100):
        # The rows are in another order than the times at which they were written.
        rig.server.say(f"{number}", dateCreated=NOW - number, originalROWID=number * 2 + 2)
    async with running(rig.adapter(pollSeconds=300)) as messages:
        await taken(messages, 100)
    assert [message.text for message in messages] == [f"{number}" for number in range(100)]
