"""The adapter of a mailbox: places, threads, files, limits, and servers that misbehave."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.channels.email import adapter as module
from skerry.channels.email import wire
from skerry.channels.email.adapter import EmailAdapter, open_account
from skerry.channels.email.compose import Mailbox, part_id
from skerry.channels.email.config import EmailAccount, Security
from skerry.infra.backoff import Backoff
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, OutboundMedia, OutboundPart, Settlement
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState
from skerry.routing.owner import is_owner
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.mail_server import ADDRESS, PASSWORD, MailServer

ALICE = "alice@people.example"


def opened(server: MailServer, cursor: MemoryCursor | None = None, **more: Any) -> EmailAdapter:
    settings = EmailAccount.model_validate({**server.settings, **more})
    host = ChannelHost(AccountId("default"), SystemClock(), cursor or MemoryCursor())
    return open_account(settings, host)


def part(text: str, more: Additions = PLAIN, **to: Any) -> OutboundPart:
    address = {"peer": Peer(PeerKind.DIRECT, ALICE), "message_id": "", **to}
    reply = ReplyTo(EmailAdapter.channel, AccountId("default"), **address)
    return OutboundPart(1, RunId("r"), 0, 0, reply, text, more)


@asynccontextmanager
async def running(adapter: EmailAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        await until(lambda: adapter.state.state is ConnectionState.CONNECTED)
        yield messages
        tasks.cancel_scope.cancel()


async def until(holds: Any) -> None:
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - plain values
            await anyio.sleep(0.01)


async def test_mail_from_before_the_first_connection_is_not_answered() -> None:
    async with MailServer() as server:
        server.say("old")
        async with running(opened(server)) as messages:
            server.say("new")
            await until(lambda: messages)
        assert [message.text for message in messages] == ["new"]
        assert [mail.flags for mail in server.inbox] == [set(), {"\\Seen"}]


async def test_without_idle_the_mailbox_is_looked_into_again() -> None:
    async with MailServer(has_idle=False) as server:
        async with running(opened(server, pollSeconds=1)) as messages:
            server.say("one")
            await until(lambda: messages)
        assert server.faults == []


async def test_idle_starts_over_and_a_broken_connection_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.02)
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("one")
        await until(lambda: messages)
        server.planned.append(("imap IDLE", "* BYE the server restarts"))
        await until(lambda: server.sessions > 1)
        server.say("two")
        await until(lambda: len(messages) > 1)


async def test_a_folder_that_is_renumbered_is_read_again() -> None:
    cursor = MemoryCursor()
    async with MailServer() as server:
        async with running(opened(server, cursor)) as messages:
            first = server.say("one")
            await until(lambda: messages)
        server.renumber()
        server.say("two")
        async with running(opened(server, cursor)) as messages:
            await until(lambda: len(messages) > 1)
        assert [message.text for message in messages] == ["one", "two"]
        assert messages[0].message_id == first  # the ledger knows it


async def test_a_forged_sender_is_a_stranger_of_another_conversation() -> None:
    owners = [f"email:{ALICE}", f"email:unverified:{ALICE}"]
    forged = "mx.agents.example; dmarc=fail header.from=people.example"
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("true")
        server.say("false", verified=False)
        server.say("false", verified=False, Authentication_Results=forged)
        server.say("false", verified=False, Authentication_Results="mx.other.example; dmarc=pass")
        await until(lambda: len(messages) > 3)
    true, *false = messages
    assert (true.sender_id, true.peer.id) == (ALICE, ALICE)
    assert is_owner(true, owners)
    for message in false:
        assert message.text == "false"
        assert (message.sender_id, message.peer.id) == (f"unverified:{ALICE}",) * 2
        assert not is_owner(message, owners)


async def test_without_a_trusted_server_everybody_is_a_stranger() -> None:
    async with MailServer() as server, running(opened(server, authservIds=[])) as messages:
        server.say("hello")
        await until(lambda: messages)
    assert not messages[0].is_verified


async def test_who_is_not_verified_can_be_ignored() -> None:
    async with MailServer() as server, running(opened(server, unverified="ignore")) as messages:
        server.say("false", verified=False)
        server.say("true")
        await until(lambda: messages)
    assert [message.text for message in messages] == ["true"]


async def test_a_mail_that_breaks_the_reading_holds_back_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = wire.read_head

    def broken(data: bytes) -> wire.MailHead:
        if b"hostile" in data:
            raise RecursionError
        return read(data)

    monkeypatch.setattr(wire, "read_head", broken)
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("one", Subject="hostile")
        server.say("two")
        await until(lambda: messages)
    assert [message.text for message in messages] == ["two"]


async def test_a_sender_who_writes_too_much_is_left_for_a_while() -> None:
    async with MailServer() as server, running(opened(server, mostPerHour=2)) as messages:
        for number in range(4):
            server.say(f"{number}")
        server.say("other", sender="bob@people.example")
        await until(lambda: len(messages) > 2)
    assert [message.text for message in messages] == ["0", "1", "other"]


async def test_an_answer_follows_the_thread_also_after_a_restart() -> None:
    cursor = MemoryCursor()
    async with MailServer() as server:
        async with running(opened(server, cursor)) as messages:
            first = server.say("one", Subject="The sea")
            second = server.say("two", Subject="Re: The sea", References=f"<{first}> <b@x>")
            await until(lambda: len(messages) > 1)
        assert [message.thread_id for message in messages] == [first, first]
        assert [message.text for message in messages] == ["Subject: The sea\n\none", "two"]
        answer = part("**yes**\n.\n..dots", message_id=second, thread_id=first)
        await opened(server, cursor).send(answer)
        (sent,) = server.delivered
        assert sent.text == "**yes**\n.\n..dots"
        assert sent.mail["Subject"] == "Re: The sea"
        assert sent.mail["In-Reply-To"] == f"<{second}>"
        assert sent.mail["References"] == f"<{first}> <b@x> <{second}>"
        assert sent.mail["Auto-Submitted"] == "auto-replied"
        html = sent.mail.get_body(("html",))
        assert html is not None
        assert "<strong>yes</strong>" in html.get_content()
        assert server.faults == []


async def test_a_mail_that_answers_none_has_its_first_line_as_subject() -> None:
    async with MailServer() as server:
        await opened(server).send(part("# **The tide**\n\nis high " + "x" * 100))
        assert server.delivered[0].mail["Subject"] == "The tide"


async def test_files_go_out_and_come_in(tmp_path: Path) -> None:
    file = tmp_path / "sea.png"
    file.write_bytes(b"\x89PNG" + bytes(200_000))
    media = OutboundMedia(AttachmentKind.IMAGE, str(file), "image/png")
    async with MailServer() as server:
        adapter = opened(server, mediaMaxMb=1)
        async with running(adapter) as messages:
            await adapter.send(part("look", Additions(media=media)))
            (sent,) = server.delivered[0].mail.iter_attachments()
            assert (sent.get_filename(), sent.get_content()) == ("sea.png", file.read_bytes())
            mail = EmailMessage(SMTP)
            mail["From"], mail["Message-ID"] = ALICE, "<1@x>"
            mail.set_content("see this")
            mail.add_attachment(file.read_bytes(), "image", "png", filename="sea.png")
            server.arrive(mail.as_bytes())
            await until(lambda: messages)
        (attachment,) = messages[0].attachments
        assert (attachment.name, attachment.mime) == ("sea.png", "image/png")
        assert await adapter.fetch(attachment, 1_000_000) == file.read_bytes()
        with pytest.raises(MediaError, match="are allowed"):
            await adapter.fetch(attachment, 1000)
        server.renumber()
        with pytest.raises(MediaError, match="renumbered"):
            await adapter.fetch(attachment, 1_000_000)


async def test_settling_looks_at_what_was_noted_and_at_sent_mail() -> None:
    cursor = MemoryCursor()
    async with MailServer() as server:
        adapter = opened(server, cursor)
        assert await adapter.settle(part("hello")) is Settlement.ABSENT
        server.planned.append(("after", "cut"))
        with pytest.raises(Exception, match="closed the connection"):
            await adapter.send(part("hello"))
        assert await adapter.settle(part("hello")) is Settlement.UNKNOWN
        await adapter.send(part("hello"))
        await cursor.write("sent", "")
        assert await opened(server, cursor).settle(part("hello")) is Settlement.DELIVERED


async def test_a_mail_goes_out_also_where_no_copy_can_be_stored() -> None:
    async with MailServer() as server:
        server.planned.append(("imap APPEND", "TAG NO the folder is full"))
        receipt = await opened(server).send(part("hello"))
        assert receipt.platform_ids == (part_id(part("hello"), Mailbox(ADDRESS)),)
        assert (len(server.delivered), server.sent) == (1, [])


@pytest.mark.parametrize("word", ["MAIL", "RCPT", "content"])
async def test_refusals_of_a_mail_are_told_apart(word: str) -> None:
    async with MailServer() as server:
        adapter = opened(server)
        server.planned.append((word, "452 4.2.2 full"))
        with pytest.raises(DeliveryDelayedError, match="full"):
            await adapter.send(part("hello"))
        server.planned.append((word, "554 5.7.1 spam"))
        with pytest.raises(DeliveryRefusedError, match="spam"):
            await adapter.send(part("hello"))
        assert server.delivered == []


async def test_a_wrong_password_needs_a_login() -> None:
    async with MailServer(password="another") as server:  # noqa: S106 - of no mailbox
        adapter = opened(server)
        state = await adapter.probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login email" in state.remedy
        with pytest.raises(DeliveryDelayedError):
            await adapter.send(part("hello"))
        assert PASSWORD not in state.message
        server.password = PASSWORD
        assert (await adapter.probe()).state is ConnectionState.CONNECTED


async def test_a_server_that_sends_too_much_is_left() -> None:
    async with MailServer() as server:
        server.planned.append(("imap EXAMINE", "* 1 FETCH (BODY[] {99999999}"))
        assert "more than" in (await opened(server).probe()).message


async def test_what_is_said_before_starttls_is_no_answer() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    received = bytearray()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"* OK ready\r\n")
            await stream.receive()
            await stream.send(b"a1 OK go\r\n* OK [CAPABILITY] and a2 OK of somebody between\r\n")
            with suppress(anyio.EndOfStream):
                received.extend(await stream.receive())

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        async with MailServer() as server:
            state = await opened(server, imapPort=port, imapSecurity="starttls").probe()
        tasks.cancel_scope.cancel()
    assert "before the start of TLS" in state.message
    assert received == b""


OPEN = {"address": ADDRESS, "password": "x", "imapSecurity": "none", "smtpSecurity": "none"}


@pytest.mark.parametrize(
    "more",
    [
        {"imapHost": "mail.example"},
        {"imapHost": "127.0.0.1", "smtpHost": "mail.example"},
        {"imapHost": "127.example.com"},
    ],
)
def test_no_password_is_sent_to_another_machine_in_the_open(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in the open"):
        EmailAccount.model_validate({**OPEN, **more})


@pytest.mark.parametrize(
    "more", [{"imapHost": "mail.example", "allowPlaintext": True}, {"imapHost": "::1"}]
)
def test_it_is_where_the_owner_says_so_and_on_this_machine(more: dict[str, Any]) -> None:
    assert EmailAccount.model_validate({**OPEN, **more}).is_configured


def test_settings_of_platform_and_account_together_are_checked_too() -> None:
    mixed = EmailAccount.model_validate({"address": ADDRESS, "imapHost": "mail.example"})
    mixed = mixed.model_copy(update={"imap_security": Security.NONE})
    with pytest.raises(ValueError, match="in the open"):
        open_account(mixed, ChannelHost(AccountId("default"), SystemClock()))
