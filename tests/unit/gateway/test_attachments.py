"""Images that come with a message."""

import base64
from typing import Any

import pytest
from msgspec.structs import replace

from skerry.gateway.attachments import MAX_IMAGE, MAX_TOGETHER, images
from skerry.gateway.method import RefusedError
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ImageBlock
from skerry.model.run import RunRequest
from skerry.store import runs, sessions
from tests.support.gateway import MODEL, SESSION, Rig
from tests.support.wire import Wire, request

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
ENCODED = base64.b64encode(PNG).decode()
IMAGE = ImageBlock(ENCODED, "image/png")
SEES = replace(MODEL, input=frozenset({"text", "image"}))


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def attachment(content: object, **more: Any) -> dict[str, Any]:
    return {
        "type": "image",
        "mimeType": "image/png",
        "fileName": "a.png",
        "content": content,
        **more,
    }


@pytest.mark.parametrize(
    "sent",
    [
        attachment(ENCODED),
        attachment(f"data:image/png;base64,{ENCODED}"),
        attachment(ENCODED[:10] + "\n" + ENCODED[10:]),
        {"content": ENCODED},
        {"type": "image", "source": {"type": "base64", "media_type": "x", "data": ENCODED}},
        attachment(ENCODED, mimeType="image/jpeg", width=1, sizeBytes=3),
    ],
)
def test_the_forms_that_clients_send_are_read_and_sniffed(sent: dict[str, Any]) -> None:
    assert images([sent]) == (IMAGE,)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a gif", "image/gif"),
        (b"GIF87a gif", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_the_bytes_say_what_an_image_is(data: bytes, kind: str) -> None:
    assert images([attachment(encoded(data))])[0].mime_type == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (encoded(b"%PDF-1.7"), "not a PNG, JPEG, GIF or WebP"),
        (encoded(b"<svg/>"), "not a PNG, JPEG, GIF or WebP"),
        (encoded(b"RIFF\x00\x00\x00\x00WAVE"), "not a PNG, JPEG, GIF or WebP"),
        ("no base64!", "is not base64"),
        ("", "has no content"),
        (None, "has no content"),
        ({"data": "x"}, "has no content"),
        (encoded(PNG + bytes(MAX_IMAGE)), "an image may have 6291456"),
        ("A" * (2 * MAX_IMAGE), "too large"),
    ],
)
def test_what_is_no_image_is_refused_by_its_name(content: object, words: str) -> None:
    with pytest.raises(RefusedError, match=rf"Attachment 1 \(a.png\).*{words}"):
        images([attachment(content)])


def test_images_have_a_limit_together() -> None:
    large = attachment(encoded(PNG + bytes(MAX_IMAGE - len(PNG))))
    assert len(images([large] * (MAX_TOGETHER // MAX_IMAGE))) == 3
    with pytest.raises(RefusedError, match="19464192 bytes together"):
        images([large] * 4)


@pytest.mark.parametrize("method", ["chat.send", "agent"])
async def test_images_and_thinking_arrive_with_the_run(rig: Rig, wire: Wire, method: str) -> None:
    rig.models.model = SEES
    sent: dict[str, Any] = {"message": "what?", "idempotencyKey": "k", "thinking": "High"}
    sent["attachments"] = [attachment(ENCODED)]
    if method == "chat.send":
        sent["sessionKey"] = "main"
    await wire.send(request(method, sent, id="1"))
    assert (await wire.response("1"))["ok"]
    run = rig.dispatcher.runs[RunId("k")].request
    assert (run.images, run.thinking) == ((IMAGE,), "high")


async def test_an_image_needs_no_words_but_a_message_needs_something(rig: Rig, wire: Wire) -> None:
    rig.models.model = SEES
    sent = {"sessionKey": "main", "message": "", "idempotencyKey": "k"}
    blank = {**sent, "message": " \n\t"}
    for method, said in (("chat.send", sent), ("chat.send", blank), ("agent", blank)):
        error = (await wire.ask(method, said))["error"]
        assert (error["code"], "message is empty" in error["message"]) == ("INVALID_REQUEST", True)
    await wire.call("chat.send", {**sent, "attachments": [attachment(ENCODED)]})
    assert rig.dispatcher.runs[RunId("k")].request.message(1).content == (IMAGE,)


async def test_a_model_that_reads_no_images_is_named_before_anything_is_accepted(
    rig: Rig, wire: Wire
) -> None:
    sent = {"sessionKey": "main", "message": "what?", "idempotencyKey": "k"}
    error = (await wire.ask("chat.send", {**sent, "attachments": [attachment(ENCODED)]}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert error["message"].startswith("stub/stub-model reads no images.")
    assert rig.dispatcher.runs == {}


async def test_a_level_of_thinking_that_is_none_is_refused(wire: Wire) -> None:
    sent = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k", "thinking": "deeply"}
    error = (await wire.ask("chat.send", sent))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert "off, minimal, low, medium, high, xhigh" in error["message"]


async def test_history_shows_images_while_they_fit(rig: Rig, wire: Wire) -> None:
    large = ImageBlock(encoded(PNG + bytes(3 * 1024 * 1024)), "image/png")
    key = SessionKey.main()
    for number in range(2):
        asked = RunRequest(RunId(f"k{number}"), key, f"look {number}", images=(large,))

        def say(unit: Any, asked: RunRequest = asked) -> None:
            session_id, tail = sessions.ensure(unit, key, SESSION, 1)
            entry = sessions.append(unit, session_id, tail, asked.run_id, [asked.message(1)], 1)
            runs.add(unit, asked, session_id, entry, 1)

        await rig.store.write(say)
    history = await wire.call("chat.history", {"sessionKey": "main"})
    (old, new) = (message["content"] for message in history["messages"])
    assert new == [
        {"type": "text", "text": "look 1"},
        {"type": "image", "data": large.data, "mimeType": "image/png"},
    ]
    size = {"omitted": True, "bytes": len(large.data) * 3 // 4}
    assert old[1] == {"type": "image", "mimeType": "image/png", **size}
