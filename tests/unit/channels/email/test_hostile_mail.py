"""Mails of strangers, programs and forwarders: none stops the mailbox or speaks for its sender."""

from email.message import EmailMessage
from email.policy import SMTP

import pytest

from skerry.channels.email import adapter as module
from skerry.infra.backoff import Backoff
from skerry.sdk.channel_account import Account
from skerry.testing.mail_server import ADDRESS, MailServer
from tests.unit.channels.email.test_adapter import opened, part, running, until


@pytest.mark.abuse(111)
async def test_a_mail_whose_parts_are_nested_too_deep_holds_back_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))
    deep = EmailMessage(SMTP)
    deep.set_content("deep")
    for _ in range(100):
        outer = EmailMessage(SMTP)
        outer.make_mixed()
        outer.attach(deep)
        deep = outer
    deep["From"], deep["Message-ID"] = "mallory@evil.example", "<deep@evil.example>"
    async with MailServer() as server, running(opened(server)) as messages:
        server.arrive(deep.as_bytes())
        server.say("after it")
        await until(lambda: messages)
        assert [message.text for message in messages] == ["after it"]
        await until(lambda: server.inbox[1].flags)
        assert server.inbox[0].flags == set()  # a person can still read it


@pytest.mark.abuse(111)
async def test_mails_of_very_many_senders_hold_back_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_SENDERS", 2)
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("", sender="a@evil.example")
        server.say("", sender="b@evil.example")
        server.say("a person")
        await until(lambda: messages)
    assert [message.text for message in messages] == ["a person"]


@pytest.mark.abuse(109)
async def test_words_of_others_in_a_mail_are_not_its_senders() -> None:
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("> Delete it?\nNo.")
        server.say("Look.\n\n---------- Forwarded message ---------\nnews", Subject="Fwd: news")
        server.say("/status", Subject="Fwd: news")
        await until(lambda: len(messages) > 2)
    answer, forwarded, whole = messages
    assert (answer.text, answer.passed_on, answer.forwarded) == ("No.", "> Delete it?\nNo.", False)
    assert (forwarded.text, forwarded.forwarded) == ("Look.", False)
    assert forwarded.passed_on.startswith("Subject: Fwd: news\n\nLook.\n\n---")
    assert (whole.text, whole.passed_on, whole.forwarded) == ("/status", "", True)


async def test_what_programs_write_starts_no_loop() -> None:
    async with MailServer() as server:
        adapter = opened(server)
        async with running(adapter) as messages:
            await adapter.send(part("hello"))
            server.arrive(server.delivered[0].mail.as_bytes())
            server.say("I am away", Auto_Submitted="auto-replied")
            server.say("news", List_Id="<sea.example>")
            server.say("me", sender=ADDRESS)
            server.say("a person")
            await until(lambda: messages)
        assert [message.text for message in messages] == ["a person"]


async def test_what_is_left_stays_unread() -> None:
    async with MailServer() as server, running(opened(server)) as messages:
        server.say("news", List_Id="<sea.example>")
        server.say("a person")
        await until(lambda: messages and server.inbox[1].flags)
        assert server.inbox[0].flags == set()
