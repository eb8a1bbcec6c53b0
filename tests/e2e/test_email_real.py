"""E-mail at a real mail system, encrypted: conversations, files, and kills counted from its log."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skerry.channels.email.adapter import EmailAdapter, open_account
from skerry.channels.email.config import EmailAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, OutboundMedia, OutboundPart, Settlement
from skerry.ports.channel import ConnectionState
from skerry.runtime.delivery import MISSING
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from tests.support.dovecot import ALICE, BOT, MailSystem, mail_system
from tests.support.oauth_server import StubOAuthServer

pytestmark = pytest.mark.full("dovecot, aiosmtpd")

KILLS = int(os.environ.get("SKERRY_KILLS", "8"))
"""Number of kills; the figure in the guide is of 200."""
POINTS = [
    "store.before-commit:1",
    "store.after-commit:1",
    "dispatch.accepted",
    "delivery.before-send",
    "delivery.after-send",
]


@pytest.fixture(scope="module")
def post() -> Iterator[MailSystem]:
    with mail_system() as post:
        yield post


@pytest.fixture(autouse=True)
def trust(post: MailSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the certificate of the mail system count, for this process and those it starts."""
    monkeypatch.setenv("SSL_CERT_FILE", post.certificate)


def everybody(post: MailSystem, **more: Any) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"], "mostPerHour": 1000}
    return {"channels": {"email": post.settings | access | more}}


def opened(post: MailSystem, **more: Any) -> EmailAdapter:
    host = ChannelHost(AccountId("default"), SystemClock(), MemoryCursor())
    return open_account(EmailAccount.model_validate(post.settings | more), host)


async def begun(post: MailSystem, gateway: GatewayProcess) -> int:
    """Waits until the gateway answers; returns how many mails Alice has."""
    number = len(await anyio.to_thread.run_sync(post.texts))
    while True:  # the mailbox is read from the first connection on, which may be yet to come
        post.say(f"are you there? {number}")
        with anyio.move_on_after(5):
            await post.wait_for(number + 1)
            return number + 1
        assert gateway.alive


@pytest.mark.parametrize(
    "more",
    [{}, {"imapSecurity": "starttls"}],
    ids=["tls", "starttls"],
)
async def test_a_conversation_runs_encrypted(
    tmp_path: Path, post: MailSystem, more: dict[str, Any]
) -> None:
    ports = {"imapPort": post.imap} if more else {}
    configuration = everybody(post, **more, **ports)
    async with running_gateway(home=tmp_path, config=configuration) as gateway:
        count = await begun(post, gateway)
        number = post.say("is it **high**?", Subject="Tide é")
        texts = await post.wait_for(count + 1)
        assert texts[-1] == "echo: Subject: Tide é\n\nis it **high**?"
        answer = post.mails()[-1]
        assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Tide é", number)
        html = answer.get_body(("html",))
        assert html is not None
        assert "<strong>high</strong>" in html.get_content()
        ours = str(answer["Message-ID"])
        post.say("thanks\n\nOn Monday House wrote:\n> echo", References=f"{number} {ours}")
        assert (await post.wait_for(count + 2))[-1] == "echo: thanks"
        assert await gateway.stop() == 0
    assert ours in [mail["Message-ID"] for mail in post.mails(BOT, "Sent Mail")]


async def received(adapter: EmailAdapter, mail: EmailMessage, post: MailSystem) -> InboundMessage:
    """Returns the message that a mail becomes."""
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        with anyio.fail_after(60):
            while adapter.state.state is not ConnectionState.CONNECTED:  # noqa: ASYNC110 - plain
                await anyio.sleep(0.02)
            await anyio.to_thread.run_sync(post.deliver, mail)
            while not messages:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    return messages[0]


async def test_files_travel_both_ways_and_sent_mail_settles(
    tmp_path: Path, post: MailSystem
) -> None:
    file = tmp_path / "sea.png"
    file.write_bytes(b"\x89PNG" + os.urandom(300_000))
    adapter = opened(post)
    mail = EmailMessage(SMTP)
    mail["From"], mail["To"], mail["Subject"] = f"Alice <{ALICE}>", BOT, "a picture"
    mail["Message-ID"] = f"<{tmp_path.name}@x.example>"
    mail.set_content("look")
    mail.add_alternative("<p>look</p>", subtype="html")
    mail.add_attachment(file.read_bytes(), "image", "png", filename="Meer é.png")
    message = await received(adapter, mail, post)
    assert (message.text, message.sender_name) == ("Subject: a picture\n\nlook", "Alice")
    (attachment,) = message.attachments
    assert (attachment.name, attachment.kind) == ("Meer é.png", AttachmentKind.IMAGE)
    assert await adapter.fetch(attachment, 1_000_000) == file.read_bytes()
    to = ReplyTo(adapter.channel, adapter.account, Peer(PeerKind.DIRECT, ALICE), message.message_id)
    media = OutboundMedia(AttachmentKind.IMAGE, str(file), "image/png")
    part = OutboundPart(1, RunId(tmp_path.name), 0, 0, to, "here", Additions(media=media))
    await adapter.send(part)
    (sent,) = post.mails()[-1].iter_attachments()
    assert sent.get_content() == file.read_bytes()
    fresh = opened(post)
    await fresh.host.cursor.write("sending", part.nonce)
    assert await fresh.settle(part) is Settlement.DELIVERED


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    post: MailSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    for more in ({}, {"imapPort": post.imap, "imapSecurity": "starttls"}):
        state = await opened(post, **more).probe()
        assert state.state is ConnectionState.RETRYING
        assert "prove" in state.message


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_leaves_one_answer(
    tmp_path: Path, post: MailSystem, point: str
) -> None:
    async with running_gateway(home=tmp_path, config=everybody(post)) as gateway:
        count = await begun(post, gateway)
        await gateway.stop()
        post.say("hello")
        with anyio.fail_after(120), suppress(AssertionError):
            await gateway.start("--fault", point)
            await gateway.wait()
        await gateway.start()
        await post.wait_for(count + 1)
        post.say("again")
        texts = await post.wait_for(count + 2)
        assert await gateway.stop() == 0
    assert texts[count:] == ["echo: hello", "echo: again"]
    assert max(Counter(post.taken).values()) == 1


async def test_dovecot_takes_the_token_of_a_sign_in_and_no_other(post: MailSystem) -> None:
    async with StubOAuthServer() as issuer:

        async def introspect(request: ServedRequest) -> ServedResponse:
            active = request.query.get("token", "") in issuer.access
            return ServedResponse.of({"active": active, "username": BOT})

        async with serve(introspect, post.tokens):
            oauth = {"clientId": "client", "tokenUrl": issuer.token_url}
            adapter = opened(post, oauth={**oauth, "refreshToken": issuer.issue()[1]})
            mail = EmailMessage(SMTP)
            mail["From"], mail["To"] = ALICE, BOT
            mail.set_content("by a token")
            message = await received(adapter, mail, post)
            assert message.text == "by a token"
            assert len(issuer.forms) == 1
            issuer.access.clear()
            state = await adapter.probe()
            assert state.state is ConnectionState.NEEDS_LOGIN


async def test_kills_at_random_lose_and_double_nothing(tmp_path: Path, post: MailSystem) -> None:
    """A part that nobody can settle is announced; each other message is answered once."""
    rng = random.Random(7)  # noqa: S311 - reproducible, no secret
    names: list[str] = []
    async with running_gateway(home=tmp_path, config=everybody(post)) as gateway:
        count = await begun(post, gateway)
        for _ in range(KILLS):
            for _ in range(rng.randint(1, 3)):
                names.append(f"n{len(names)}.")
                await anyio.to_thread.run_sync(post.say, names[-1])
            await anyio.sleep(rng.uniform(0, 0.6))
            await gateway.kill()
            await gateway.start()
        post.say("the end")
        with anyio.fail_after(240):
            while True:
                texts = await anyio.to_thread.run_sync(post.texts)
                if "echo: the end" in "\n".join(texts):
                    break
                await anyio.sleep(0.2)
        assert await gateway.stop() == 0
    answers = texts[count:]
    order = [name for text in answers for name in names if name in text]
    announced = answers.count(MISSING)
    assert len(order) + announced >= len(names), answers
    assert order == [name for name in names if name in order], answers
    assert max(Counter(post.taken).values()) == 1
