"""Strict mail server on loopback: IMAP with IDLE, and SMTP, of one mailbox."""

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from email.utils import make_msgid
from typing import Final, Self

import anyio
import anyio.abc

from skerry.testing.mail_imap import ClientLines, ImapSession, Mail, MailConnectionEndedError

ADDRESS: Final = "house@agents.example"
PASSWORD: Final = "wind and tide"  # noqa: S105 - of no mailbox
AUTHSERV: Final = "mx.agents.example"
REASON: Final = "eyJzdGF0dXMiOiI0MDAifQ=="
"""Reason of a refusal in the format of providers: JSON in Base64."""
_MAX_LINE: Final = 998


@dataclass(frozen=True, slots=True)
class DeliveredMail:
    """A mail from the account."""

    recipient: str
    mail: EmailMessage

    @property
    def text(self) -> str:
        """Returns its plain text without the end of its last line."""
        body = self.mail.get_body(("plain",))
        text = "" if body is None else str(body.get_content())
        return text.replace("\r\n", "\n").removesuffix("\n")


@dataclass(slots=True)
class MailServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    imap_port: int = 0
    smtp_port: int = 0
    password: str = PASSWORD
    tokens: set[str] | None = None
    """Valid access tokens for XOAUTH2; None for a mailbox with a password only."""
    validity: int = 7
    has_idle: bool = True
    inbox: list[Mail] = field(default_factory=list)
    sent: list[Mail] = field(default_factory=list)
    """The folder of sent mail, which does not exist before the first mail."""
    delivered: list[DeliveredMail] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Invalid commands, which a mail server would refuse."""
    planned: list[tuple[str, str]] = field(default_factory=list)
    """Commands of SMTP with their planned replies; `cut` ends the connection after the command.
    Commands of IMAP begin with `imap `."""
    sessions: int = 0
    """Number of connections to the IMAP server."""
    idling: int = 0
    """Number of `IDLE` commands."""
    changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as tasks:
            self.imap_port = await tasks.start(self._listen, self._serve_imap)
            self.smtp_port = await tasks.start(self._listen, self._serve_smtp)
            yield self
            tasks.cancel_scope.cancel()

    async def _listen(
        self,
        serve: Callable[[ClientLines], Awaitable[None]],
        *,
        task_status: anyio.abc.TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

        async def connection(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                with suppress(MailConnectionEndedError):
                    await serve(ClientLines(stream))

        async with listener:
            task_status.started(
                listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
            )
            await listener.serve(connection)

    @property
    def settings(self) -> dict[str, object]:
        """Returns the settings of an account of this server."""
        return {
            "address": ADDRESS,
            "password": PASSWORD,
            "imapHost": "127.0.0.1",
            "imapPort": self.imap_port,
            "imapSecurity": "none",
            "smtpPort": self.smtp_port,
            "smtpSecurity": "none",
            "authservIds": [AUTHSERV],
        }

    # Actions of people.

    def say(
        self,
        text: str,
        *,
        sender: str = "alice@people.example",
        name: str = "Alice",
        verified: bool = True,
        **fields: str,
    ) -> str:
        """Sends a mail from a person; returns its id. `_` in the names of `fields` becomes `-`."""
        mail = EmailMessage(SMTP)
        encoded_name = base64.b64encode(name.encode()).decode()
        mail["To"] = ADDRESS
        mail["Message-ID"] = number = make_msgid(domain="people.example")
        if verified:
            domain = sender.rpartition("@")[2]
            mail["Authentication-Results"] = f"{AUTHSERV}; dmarc=pass header.from={domain}"
        for field_name, value in fields.items():
            mail[field_name.replace("_", "-")] = value
        mail.set_content(text)
        head = (
            f"Return-Path: <{sender}>\r\nFrom: =?utf-8?b?{encoded_name}?= <{sender}>\r\n".encode()
        )
        self.arrive(head + mail.as_bytes())
        return number.strip("<>")

    def arrive(self, data: bytes) -> None:
        """Adds a mail to the mailbox."""
        uid = self.inbox[-1].uid + 1 if self.inbox else 1
        self.inbox.append(Mail(uid, data))
        self.wake()

    def repeat(self) -> None:
        """Delivers the last mail again."""
        self.arrive(self.inbox[-1].data)

    def renumber(self) -> None:
        """Changes the numbers of all mails, as a server does after a repair."""
        self.validity += 1
        for number, mail in enumerate(self.inbox, 101):
            mail.uid = number

    async def wait_for(self, count: int) -> list[str]:
        """Waits until the account has sent `count` mails; returns their texts."""
        with anyio.fail_after(60):
            while len(self.delivered) < count:
                await self.changed.wait()
        return [mail.text for mail in self.delivered]

    def admits(self, answer: str) -> bool:
        """Returns whether an XOAUTH2 response has the right name and a valid access token."""
        name, _, auth = base64.b64decode(answer).decode().partition("\1")
        bearer = auth.removesuffix("\1\1").removeprefix("auth=Bearer ")
        return name == f"user={ADDRESS}" and bearer in (self.tokens or ())

    def wake(self) -> None:
        """Wakes the tasks that wait for a change."""
        self.changed.set()
        self.changed = anyio.Event()

    def plan(self, word: str) -> str:
        """Removes and returns the planned reply to a command; empty for none."""
        planned_answer = next((plan for plan in self.planned if plan[0] == word), None)
        if planned_answer is None:
            return ""
        self.planned.remove(planned_answer)
        return planned_answer[1]

    # Commands of the account.

    async def _serve_imap(self, conversation: ClientLines) -> None:
        self.sessions += 1
        if planned := self.plan("imap connect"):
            if planned != "cut":
                await conversation.say(planned)
            return
        await ImapSession(self, conversation).serve()

    async def _serve_smtp(self, conversation: ClientLines) -> None:
        await conversation.say("220 agents.example ready")
        envelope: list[str] = []
        is_signed_in = False
        while True:
            line = (await conversation.line()).decode()
            verb = line.split(" ", 1)[0].partition(":")[0].upper()
            if planned := self.plan(verb):
                await conversation.say(planned)
                continue
            match verb:
                case "EHLO":
                    ways = "PLAIN" if self.tokens is None else "XOAUTH2"
                    await conversation.say("250-agents.example", "250-8BITMIME", f"250 AUTH {ways}")
                case "AUTH":
                    is_signed_in = await self._sign_in(conversation, line)
                case "MAIL" | "RCPT" if is_signed_in:
                    envelope.append(line.partition("<")[2].removesuffix(">"))
                    await conversation.say("250 ok")
                case "DATA" if is_signed_in and len(envelope) == 2:  # noqa: PLR2004 - from and to
                    await self._take_mail(conversation, *envelope)
                    envelope = []
                case _:
                    self.faults.append(f"SMTP {line}")
                    await conversation.say("503 bad sequence")

    def opens(self, token: str) -> bool:
        """Returns whether a SASL PLAIN token has the right name and password."""
        return base64.b64decode(token) == f"\0{ADDRESS}\0{self.password}".encode()

    async def _sign_in(self, conversation: ClientLines, line: str) -> bool:
        answer = line.rpartition(" ")[2]
        if not line.startswith("AUTH XOAUTH2 "):
            is_signed_in = self.opens(answer)
        elif not (is_signed_in := self.admits(answer)):
            await conversation.say(f"334 {REASON}")
            self.faults += [line] if await conversation.line() else []
        await conversation.say("235 welcome" if is_signed_in else "535 5.7.8 wrong")
        return is_signed_in

    async def _take_mail(self, conversation: ClientLines, sender: str, recipient: str) -> None:
        await conversation.say("354 go on")
        lines: list[bytes] = []
        while (line := await conversation.line()) != b".":
            lines.append(line[1:] if line.startswith(b".") else line)
        if planned := self.plan("content"):
            await conversation.say(planned)
            return
        self._check(lines, sender, recipient)
        mail = message_from_bytes(b"\r\n".join(lines) + b"\r\n", policy=default)
        self.delivered.append(DeliveredMail(recipient, mail))
        self.wake()
        if self.plan("after") == "cut":
            raise MailConnectionEndedError
        await conversation.say("250 queued")

    def _check(self, lines: list[bytes], sender: str, recipient: str) -> None:
        head = message_from_bytes(b"\r\n".join(lines))
        faults = [
            *(f"{name} is missing" for name in ("Date", "From", "Message-ID") if name not in head),
            *("a line is too long" for line in lines if len(line) > _MAX_LINE),
            *("a line is not ASCII" for line in lines if not line.isascii()),
            *(["the sender is another"] if sender != ADDRESS else []),
            *(["the recipient is another"] if recipient not in str(head["To"]) else []),
            *(["it may be answered by programs"] if "Auto-Submitted" not in head else []),
            *(["an id is used twice"] if self._is_known(str(head["Message-ID"])) else []),
        ]
        self.faults += [f"mail to {recipient}: {fault}" for fault in faults]

    def _is_known(self, message_id: str) -> bool:
        return any(mail.mail["Message-ID"] == message_id for mail in self.delivered)
