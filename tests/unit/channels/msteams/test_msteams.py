"""The Teams adapter: proofs of requests, activities, addresses of answers, cards and files."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.channels.msteams import wire
from skerry.channels.msteams.adapter import MsTeamsAdapter, open_account
from skerry.channels.msteams.config import MsTeamsAccount
from skerry.channels.msteams.markup import rendered
from skerry.infra.clock import SystemClock
from skerry.model.errors import BusyError, DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundMedia, OutboundPart, Settlement
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState, Post, PostAnswer
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.teams_server import APP, ISSUER, TeamsServer
from skerry.testing.token_issuer import signing_key, token

HERE = AccountId("default")
ROOM = Peer(PeerKind.CHANNEL, "19:sea@thread.tacv2")


def opened(server: TeamsServer, cursor: MemoryCursor | None = None, **more: Any) -> MsTeamsAdapter:
    settings = MsTeamsAccount.model_validate(server.settings | more)
    return open_account(settings, ChannelHost(HERE, SystemClock(), cursor or MemoryCursor()))


def part(text: str, to: Peer, thread: str | None = None, more: Additions = PLAIN) -> OutboundPart:
    reply = ReplyTo(wire.CHANNEL, HERE, to, "1", thread)
    return OutboundPart(1, RunId("r"), 0, 0, reply, text, more)


def read(**more: Any) -> InboundMessage | None:
    event = TeamsServer().activity(**more)
    return wire.inbound(wire.activity.decode(msgspec.json.encode(event)), HERE, 5)


@asynccontextmanager
async def running(adapter: MsTeamsAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        with anyio.fail_after(60):
            while adapter.state.state is ConnectionState.STARTING:  # noqa: ASYNC110 - plain
                await anyio.sleep(0.01)
        yield messages
        tasks.cancel_scope.cancel()


async def post(
    adapter: MsTeamsAdapter, event: Any, headers: dict[str, str], method: str = "POST"
) -> PostAnswer:
    return await adapter.posted(Post(method, "", {}, headers, msgspec.json.encode(event)))


def headers(server: TeamsServer, **more: Any) -> dict[str, str]:
    claims = {"iss": ISSUER, "aud": APP, "serviceurl": server.service}
    return {"authorization": f"Bearer {token(claims | more)}"}


async def test_requests_without_a_proof_are_refused_before_they_are_read() -> None:
    async with TeamsServer() as server:
        adapter, event = opened(server), server.activity(text="/stop")
        async with running(adapter) as messages:
            forged = [
                {},
                {"authorization": f"Bearer {token({}, key=signing_key('stranger'))}"},
                headers(server, aud="another bot"),
                headers(server, iss="https://sts.windows.net/t/"),
                headers(server, exp=1_700_000_000),
                headers(server, nbf=4_000_000_000),
            ]
            for given in forged:
                assert (await post(adapter, event, given)).status == 401
            assert (await post(adapter, event, headers(server), "GET")).status == 405
            assert messages == []
            assert (await post(adapter, event, headers(server))).status == 200
            assert [message.text for message in messages] == ["/stop"]


async def test_an_activity_must_be_what_its_token_is_about() -> None:
    async with TeamsServer() as server:
        adapter = opened(server)
        async with running(adapter) as messages:
            elsewhere = "http://127.0.0.1:9/emea/"
            wrong: list[tuple[Any, dict[str, Any]]] = [
                (server.activity(text="x", serviceUrl=elsewhere), {}),
                (server.activity(text="x", serviceUrl=elsewhere), {"serviceurl": elsewhere}),
                (server.activity(text="x"), {"serviceurl": elsewhere}),
                (server.activity(text="x"), {"serviceurl": None}),
                (server.activity(text="x", channelId="emulator"), {}),
                (server.activity(text="x", channelId="slack"), {}),
            ]
            for event, claims in wrong:
                assert (await post(adapter, event, headers(server, **claims))).status == 403
            assert messages == []


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("https://smba.trafficmanager.net/emea/", True),
        ("https://smba.trafficmanager.net:443/teams", True),
        ("https://webchat.botframework.com/", True),
        ("http://smba.trafficmanager.net/emea/", False),
        ("https://evil.trafficmanager.net/emea/", False),
        ("https://smba.trafficmanager.net.evil.example/", False),
        ("https://evil.example/smba.trafficmanager.net", False),
        ("https://botframework.com.evil.example/", False),
        ("https://u:p@smba.trafficmanager.net/", False),
        ("https://smba.trafficmanager.net:8443/", False),
        ("https://smba.trafficmanager.net:x/", False),
        ("https://files.sharepoint.com/", False),
        ("file:///etc/passwd", False),
    ],
)
async def test_the_bots_token_goes_to_servers_of_teams_alone(url: str, *, is_known: bool) -> None:
    async with TeamsServer() as server:
        adapter = opened(server)
        assert adapter._api.is_service(url) is is_known
        assert adapter._api.is_service(server.service)
        assert not adapter._api.is_service(f"{server.root}/other/")
        assert not adapter._api.is_service(f"{server.root}/emea/../other")
        event = server.activity(text="x", serviceUrl=url)
        async with running(adapter):
            answer = await post(adapter, event, headers(server, serviceurl=url))
        assert answer.status == (200 if is_known else 403)


async def test_what_is_not_taken_is_sent_again() -> None:
    async with TeamsServer() as server:
        with pytest.raises(BusyError):
            await post(opened(server), server.activity(text="x"), headers(server))


def test_a_channels_thread_has_its_place_its_team_and_its_mentions() -> None:
    message = read(
        text="<at>House</at> ask <at>Bob</at>\xa0please",
        conversation={"id": f"{ROOM.id};messageid=17", "conversationType": "channel"},
        channelData={"team": {"id": "19:team"}, "channel": {"id": ROOM.id, "name": "sea"}},
        entities=[
            {"type": "clientInfo", "locale": "en"},
            {
                "type": "mention",
                "text": "<at>House</at>",
                "mentioned": {"id": f"28:{APP}", "name": "House"},
            },
            {
                "type": "mention",
                "text": "<at>Bob</at>",
                "mentioned": {"id": "29:b", "name": "Bob", "aadObjectId": "aad-bob"},
            },
        ],
    )
    assert message is not None
    assert message.text == "ask @Bob please"
    assert (message.peer, message.thread_id, message.team_id) == (ROOM, "17", "19:team")
    assert (message.mentions_me, message.mentions) == (True, (f"28:{APP}", "aad-bob"))
    assert (message.sender_id, message.sender_name) == ("aad-alice", "Alice")
    assert (message.group_name, message.sent_at) == ("sea", 1_795_514_400_000)


@pytest.mark.parametrize(
    ("kind", "peer"),
    [("personal", PeerKind.DIRECT), ("groupChat", PeerKind.GROUP), ("", PeerKind.CHANNEL)],
)
def test_kinds_of_chats(kind: str, peer: PeerKind) -> None:
    message = read(text="x", conversation={"id": "c", "conversationType": kind})
    assert message is not None
    assert (message.peer, message.mentions_me) == (Peer(peer, "c"), False)


@pytest.mark.parametrize(
    "event",
    [
        {"text": "x", "type": "conversationUpdate"},
        {"text": "x", "type": "messageUpdate"},
        {"text": "x", "from": {"id": "28:other"}},
        {"text": "x", "from": {"id": "29:x", "role": "bot"}},
        {"text": "x", "from": {}},
        {"text": "x", "id": ""},
        {"text": "x", "conversation": {}},
        {"text": " "},
        {"text": None, "value": {"other": "x"}},
    ],
    ids=str,
)
def test_what_no_person_wrote_is_no_message(event: dict[str, Any]) -> None:
    assert read(**event) is None


def test_a_deletion_names_the_message_that_is_gone() -> None:
    gone = read(type="messageDelete", text=None, id="7")
    assert gone is not None
    assert (gone.deletes, gone.text, gone.message_id) == ("7", "", "")


def test_an_edit_is_another_message() -> None:
    edit = read(text="new", type="messageUpdate", channelData={"eventType": "editMessage"}, id="7")
    assert edit is not None
    assert (edit.edited, edit.message_id) == (True, "7:2026-11-24T10:00:00.000Z")


def test_files_and_pictures_are_named_and_the_copy_of_the_text_is_not() -> None:
    message = read(
        text="see",
        attachments=[
            {"contentType": "text/html", "content": "<p>see</p>"},
            {"contentType": "image/*", "contentUrl": "https://smba.trafficmanager.net/p"},
            {
                "contentType": wire.FILE,
                "name": "plan.pdf",
                "content": {"downloadUrl": "https://x.sharepoint.com/f", "fileType": "pdf"},
            },
            {"contentType": "application/vnd.microsoft.card.adaptive", "content": {}},
        ],
    )
    assert message is not None
    picture, plan = message.attachments
    assert (picture.kind, picture.mime) == (AttachmentKind.IMAGE, "")
    assert (plan.kind, plan.name) == (AttachmentKind.FILE, "plan.pdf")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**b** *i* `a<b`", "<b>b</b> <i>i</i> <code>a&lt;b</code>"),
        ("<at>Bob</at> & you", "&lt;at&gt;Bob&lt;/at&gt; &amp; you"),
        ("a\nb\n\n```py\nc\nd\n```\n\ne", "a<br>b<br><br><pre>c\nd</pre><br><br>e"),
        ('[l](https://x/?a="b")', '<a href="https://x/?a=%22b%22">l</a>'),
        ("[l](javascript:x)", "[l](javascript:x)"),
    ],
)
def test_markdown_becomes_html_that_calls_nobody(text: str, shown: str) -> None:
    assert rendered(text) == shown


async def test_answers_go_to_the_address_that_a_chat_came_from_also_after_a_restart() -> None:
    cursor = MemoryCursor()
    async with TeamsServer() as server:
        where = {"id": f"{ROOM.id};messageid=17", "conversationType": "channel"}
        with pytest.raises(DeliveryRefusedError, match="No message has arrived"):
            await opened(server, cursor).send(part("hello", ROOM, "17"))
        event = server.activity(text="x", conversation=where)
        adapter = opened(server, cursor)
        async with running(adapter):
            await post(adapter, event, headers(server))
        await opened(server, cursor).send(part("hello", ROOM, "17"))
        assert server.texts(where["id"]) == ["hello"]
        assert server.faults == []


async def test_a_button_comes_back_as_its_command() -> None:
    async with TeamsServer() as server:
        adapter = opened(server)
        alice = Peer(PeerKind.DIRECT, "a:alice")
        async with running(adapter) as messages:
            await post(adapter, server.activity(text="x"), headers(server))
            buttons = ((Button("Allow", "/approve 1 allow-once"), Button("No", "/deny 1")),)
            await adapter.send(part("May I?", alice, more=Additions(buttons=buttons)))
            (card,) = server.messages[0].body["attachments"]
            allow, _ = card["content"]["actions"]
            assert (card["contentType"], allow["title"]) == (wire.CARD, "Allow")
            pressed = server.activity(value=allow["data"], replyToId=server.messages[0].id)
            await post(adapter, pressed, headers(server))
        assert messages[1].text == "/approve 1 allow-once"
        assert messages[1].mentions_me


async def test_a_message_is_edited_and_typing_is_shown() -> None:
    async with TeamsServer() as server:
        adapter, alice = opened(server), Peer(PeerKind.DIRECT, "a:alice")
        async with running(adapter):
            await post(adapter, server.activity(text="x"), headers(server))
            receipt = await adapter.send(part("one", alice))
            await adapter.edit(part("", alice).to, receipt.platform_ids[0], "**two**")
            await adapter.typing(part("", alice).to)
            assert await adapter.settle(part("one", alice)) is Settlement.UNKNOWN
        assert (server.texts(), server.typed, server.faults) == (["two"], ["a:alice"], [])


async def test_a_token_that_was_withdrawn_is_replaced() -> None:
    async with TeamsServer() as server:
        adapter, alice = opened(server), Peer(PeerKind.DIRECT, "a:alice")
        async with running(adapter):
            await post(adapter, server.activity(text="x"), headers(server))
            server.withdrawn = True
            await adapter.send(part("one", alice))
        assert (server.texts(), server.tokens) == (["one"], 2)


async def test_a_wrong_secret_needs_a_login() -> None:
    async with TeamsServer(secret="another") as server:  # noqa: S106 - of no bot
        adapter = opened(server)
        state = await adapter.probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login msteams" in state.remedy
        async with running(adapter):
            await post(adapter, server.activity(text="x"), headers(server))
            with pytest.raises(DeliveryDelayedError):
                await adapter.send(part("one", Peer(PeerKind.DIRECT, "a:alice")))


async def test_files_are_fetched_with_a_token_from_teams_alone() -> None:
    async with TeamsServer() as server:
        adapter = opened(server)
        server.files["f"] = b"x" * 100
        own = Attachment(AttachmentKind.FILE, f"{server.root}/emea/files/f", name="f")
        assert await adapter.fetch(own, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(own, 10)
        for url in ("http://127.0.0.1:9/f", f"{server.root}/keys", "https://evil.example/f"):
            with pytest.raises(MediaError, match="not at Teams"):
                await adapter.fetch(Attachment(AttachmentKind.FILE, url, name="f"), 1000)


def with_file(path: Path, to: Peer, mime: str = "application/pdf") -> OutboundPart:
    kind = AttachmentKind.IMAGE if mime.startswith("image/") else AttachmentKind.FILE
    media = OutboundMedia(kind, str(path), mime, "plan.pdf")
    return part("", to, more=Additions(media=media))


async def test_a_file_is_uploaded_once_when_its_person_agrees(tmp_path: Path) -> None:
    alice, path, cursor = Peer(PeerKind.DIRECT, "a:alice"), tmp_path / "copy", MemoryCursor()
    path.write_bytes(b"%PDF-1.4 plan")
    async with TeamsServer() as server:
        adapter = opened(server, cursor)
        async with running(adapter):
            await post(adapter, server.activity(text="x"), headers(server))
            await adapter.send(with_file(path, alice))
            (card,) = server.messages
            offer = card.body["attachments"][0]
            assert offer["contentType"].endswith("file.consent")
            assert offer["content"]["sizeInBytes"] == 13
            agreed = server.consent(card)
            elsewhere = {"id": "a:bob", "conversationType": "personal"}
            await post(adapter, agreed | {"conversation": elsewhere}, headers(server))
            assert server.stored == {}, "a card is answered in its own chat"
        restarted = opened(server, cursor)
        async with running(restarted):
            for _ in range(2):
                await post(restarted, agreed, headers(server))
        assert server.stored == {card.id: b"%PDF-1.4 plan"}
        (shown,) = server.messages[1].body["attachments"]
        assert shown["contentType"].endswith("file.info")
        assert shown["content"] == {"uniqueId": card.id, "fileType": "pdf"}
        assert (len(server.messages), server.faults) == (2, [])


async def test_a_file_is_not_uploaded_without_consent_nor_to_a_strange_address(
    tmp_path: Path,
) -> None:
    alice, path = Peer(PeerKind.DIRECT, "a:alice"), tmp_path / "copy"
    path.write_bytes(b"%PDF-1.4 plan")
    async with TeamsServer() as server:
        adapter = opened(server)
        async with running(adapter):
            await post(adapter, server.activity(text="x"), headers(server))
            await adapter.send(with_file(path, alice))
            (card,) = server.messages
            strange = server.consent(card, address="https://files.example.com/up")
            assert (await post(adapter, strange, headers(server))).status == 400
            await post(adapter, server.consent(card, "decline"), headers(server))
            await post(adapter, server.consent(card), headers(server))
        assert (server.stored, len(server.messages)) == ({}, 1)


async def test_pictures_go_within_a_message_and_other_files_to_no_group(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    async with TeamsServer() as server:
        where = {"id": ROOM.id, "conversationType": "channel"}
        adapter = opened(server)
        async with running(adapter):
            await post(adapter, server.activity(text="x", conversation=where), headers(server))
            await adapter.send(with_file(path, ROOM, "image/png"))
            (picture,) = server.messages[0].body["attachments"]
            assert picture["contentUrl"] == "data:image/png;base64,iVBORw0KGgo="
            path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20_000))
            with pytest.raises(DeliveryRefusedError, match="outside of personal chats"):
                await adapter.send(with_file(path, ROOM, "image/png"))
        assert (len(server.messages), server.faults) == (1, [])
