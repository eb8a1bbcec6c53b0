"""The Slack adapter: events, buttons, threads, files, and a workspace that fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from skerry.channels.slack import wire
from skerry.channels.slack.adapter import SlackAdapter, open_account
from skerry.channels.slack.config import SlackAccount
from skerry.channels.slack.markup import MRKDWN, plain
from skerry.infra.backoff import Backoff
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundPart, Settlement
from skerry.model.undelivered import MediaError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.CHANNEL, "C1"), "1.2", "1700.5")
ME = wire.Me("UBOT", "house")


def opened(server: SlackServer, **settings: Any) -> SlackAdapter:
    file = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root, **settings}
    return open_account(
        SlackAccount.model_validate(file), ChannelHost(AccountId("default"), SystemClock())
    )


def part(text: str, more: Additions = PLAIN, number: int = 0) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, number, TO, text, more)


def read(**event: Any) -> InboundMessage | None:
    usual = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1"}
    outer = {"team_id": "T1", "event": {**usual, "ts": "1700000000.000100", **event}}
    decoded = wire.callback.decode(msgspec.json.encode(outer))
    return wire.inbound(decoded, AccountId("default"), ME, 5)


@asynccontextmanager
async def running(adapter: SlackAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        yield messages
        tasks.cancel_scope.cancel()


async def taken(messages: list[InboundMessage], count: int) -> None:
    with anyio.fail_after(60):
        while len(messages) < count:  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.01)


def test_an_event_has_its_place_its_thread_and_its_mentions() -> None:
    message = read(
        text="hey <@UBOT> &amp; <@U2|bob>, see <https://x.example|this>", thread_ts="1.5"
    )
    assert message is not None
    assert message.text == "hey @UBOT & @U2, see this (https://x.example)"
    assert (message.mentions_me, message.mentions) == (True, ("UBOT", "U2"))
    assert (message.peer, message.thread_id) == (Peer(PeerKind.CHANNEL, "C1"), "1.5")
    assert (message.team_id, message.sent_at) == ("T1", 1_700_000_000_000)
    direct = read(text="x", channel="D1", channel_type="im")
    assert direct is not None
    assert direct.peer.kind is PeerKind.DIRECT


def test_a_mention_and_its_message_are_one_for_the_ledger() -> None:
    mention, message = read(type="app_mention", channel_type="", text="x"), read(text="x")
    assert mention is not None
    assert message is not None
    assert (mention.message_id, mention.peer) == (message.message_id, message.peer)
    assert mention.mentions_me


@pytest.mark.parametrize(
    "event",
    [
        {"text": "x", "bot_id": "B1"},
        {"text": "x", "user": "UBOT"},
        {"text": "x", "subtype": "channel_join"},
        {"text": ""},
        {"subtype": "message_deleted"},
    ],
    ids=str,
)
def test_what_no_person_wrote_is_no_message(event: dict[str, Any]) -> None:
    assert read(**event) is None


def test_a_deletion_names_the_message_that_is_gone() -> None:
    old = {"type": "message", "user": "U1", "text": "old", "ts": "1700000000.000100"}
    more = {"deleted_ts": "1700000000.000100", "previous_message": old}
    gone = read(subtype="message_deleted", text="", **more)
    assert gone is not None
    assert (gone.deletes, gone.text, gone.message_id) == ("1700000000.000100", "", "")
    assert read(subtype="message_deleted", text="", deleted_ts="now") is None


def test_an_edit_is_another_message_and_a_preview_is_none() -> None:
    new = {"type": "message", "user": "U1", "text": "new", "ts": "1700000000.000100"}
    old = {**new, "text": "old"}
    changed = {**new, "edited": {"user": "U1", "ts": "9.9"}}
    edit = read(subtype="message_changed", message=changed, previous_message=old)
    assert edit is not None
    assert (edit.text, edit.edited, edit.message_id) == ("new", True, "1700000000.000100:9.9")
    assert read(subtype="message_changed", message=new, previous_message=new) is None


@pytest.mark.parametrize(
    ("text", "mrkdwn"),
    [
        ("**b** *i* ~~s~~ `c<d`", "*b* _i_ ~s~ `c&lt;d`"),
        ("a_b*c", "a\u200b_b\u200b*c"),
        ("<!channel> <@U1>", "&lt;!channel&gt; &lt;@U1&gt;"),
        ("[l](https://x.example/?a=1&b=2)", "<https://x.example/?a=1&amp;b=2|l>"),
        ("[l](javascript:x)", "[l](javascript:x)"),
        ("```py\n<!here>\n```", "```\n&lt;!here&gt;\n```"),
        ("> q\n> r", "> q\n> r"),
    ],
)
def test_markdown_becomes_mrkdwn_that_calls_nobody(text: str, mrkdwn: str) -> None:
    assert MRKDWN.render(text) == mrkdwn


def test_marks_of_slack_become_plain_text() -> None:
    assert plain("<#C1|sea> <!here> <!subteam^S1|team> <mailto:a@b.c|a@b.c>") == (
        "#sea @here @team a@b.c (mailto:a@b.c)"
    )


async def test_a_part_is_found_again_by_its_metadata() -> None:
    async with SlackServer() as server:
        adapter = opened(server)
        await adapter.send(part("hello"))
        assert server.posted[0].params["thread_ts"] == "1700.5"
        assert await adapter.settle(part("hello")) is Settlement.DELIVERED
        assert await adapter.settle(part("never", number=1)) is Settlement.ABSENT


@pytest.mark.parametrize(
    ("channel", "kind"),
    [
        ("D1", PeerKind.DIRECT),
        ("C1", PeerKind.CHANNEL),
        ("C2", PeerKind.GROUP),
        ("G1", PeerKind.GROUP),
    ],
)
def test_a_button_is_of_the_conversation_that_its_message_is_in(
    channel: str, kind: PeerKind
) -> None:
    def pressed(action_id: str) -> Peer:
        action = wire.Action("/approve 1 deny", "1.2", action_id)
        person = wire.Identified("U1")
        act = wire.Interaction("block_actions", person, wire.Identified(channel), actions=(action,))
        message = wire.pressed(act, AccountId("default"), 1)
        assert message is not None
        return message.peer

    assert pressed(wire.button_id(kind, 0, 1)) == Peer(kind, channel)
    earlier = PeerKind.DIRECT if channel == "D1" else PeerKind.CHANNEL
    assert pressed("skerry-0-1") == Peer(earlier, channel)
    assert pressed(wire.button_id(PeerKind.DIRECT, 0, 1)) == Peer(earlier, channel)


async def test_a_button_comes_back_as_its_command() -> None:
    async with SlackServer() as server:
        adapter = opened(server)
        buttons = ((Button("Allow", "/approve 1 allow-once"),),)
        await adapter.send(part("May I?", Additions(buttons=buttons)))
        (button,) = server.posted[0].params["blocks"][1]["elements"]
        assert (button["text"]["text"], button["value"]) == ("Allow", "/approve 1 allow-once")
        async with running(adapter) as messages:
            server.press(button["value"])
            await taken(messages, 1)
        assert (messages[0].text, messages[0].sender_id) == ("/approve 1 allow-once", "UALICE")


async def test_a_socket_that_ends_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))
    async with SlackServer() as server:
        adapter = opened(server)
        async with running(adapter) as messages:
            server.say("one")
            await taken(messages, 1)
            assert adapter.state.name == "@house"
            await server.disconnect()
            server.say("two")
            await taken(messages, 2)
            await server.cut()
            server.say("three")
            await taken(messages, 3)
        assert "three" in [message.text for message in messages]


async def test_tokens_that_are_refused_need_a_login() -> None:
    async with SlackServer(revoked=True) as server:
        state = await opened(server).probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login slack" in state.remedy


async def test_edits_reactions_and_files() -> None:
    async with SlackServer() as server:
        adapter = opened(server)
        receipt = await adapter.send(part("one"))
        await adapter.edit(TO, receipt.platform_ids[0], "**two**")
        assert server.texts("C1") == ["*two*"]
        await adapter.react(TO, "👀")
        assert server.reactions == [("1.2", "eyes")]
        server.files["f1"] = b"x" * 100
        url = server.root.replace("/api", "/files/f1")
        file = Attachment(AttachmentKind.FILE, url, name="f")
        assert await adapter.fetch(file, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(file, 10)
        elsewhere = Attachment(AttachmentKind.FILE, "http://127.0.0.1:9/token", name="f")
        with pytest.raises(MediaError, match="cannot be fetched"):
            await adapter.fetch(elsewhere, 10)
