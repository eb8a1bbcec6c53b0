"""IMAP sessions of `mail_server`."""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import TYPE_CHECKING, Final, cast

import anyio
import anyio.abc

if TYPE_CHECKING:
    from email.message import Message

    from skerry.testing.mail_server import MailServer


@dataclass(slots=True)
class Mail:
    """A message of a folder."""

    uid: int
    data: bytes
    flags: set[str] = field(default_factory=set)

    @property
    def parsed(self) -> "Message[str, str]":
        """Returns the message as parsed by the standard library."""
        return message_from_bytes(self.data)


_FETCH: Final = re.compile(
    r"UID FETCH (\d+) \((UID(?: INTERNALDATE)?(?: BODYSTRUCTURE)?)"
    r" BODY\.PEEK\[([\w.]+)\]<0\.(\d+)>\)"
)
_STORE: Final = re.compile(r"UID STORE (\d+) \+FLAGS\.SILENT \(\\Seen\)")
_APPEND: Final = re.compile(r'APPEND "Sent" \(\\Seen\) \{(\d+)\}')
_SEARCH: Final = re.compile(
    r"UID SEARCH (?:UID (?P<first>\d+|\*)(?::\*)?(?: SINCE \d{1,2}-[A-Z][a-z]{2}-\d{4})?"
    r'|HEADER Message-ID "(?P<id><[^"]+>)")'
)
_SELECT: Final = re.compile(r'(SELECT|EXAMINE) "(INBOX|Sent)"')
_ARRIVED: Final = '"24-Nov-2026 10:00:00 +0000"'


class MailConnectionEndedError(Exception):
    """The client disconnected, or the server ends the connection."""


class ClientLines:
    """Lines of one connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def line(self) -> bytes:
        """Returns the next line, which must end with CRLF."""
        while b"\r\n" not in self._buffer:
            await self._fill()
        line, _, remaining = bytes(self._buffer).partition(b"\r\n")
        self._buffer = bytearray(remaining)
        return line

    async def exactly(self, count: int) -> bytes:
        """Returns the next `count` bytes."""
        while len(self._buffer) < count:
            await self._fill()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def say(self, *lines: str | bytes) -> None:
        """Sends lines."""
        for line in lines:
            data = line.encode() if isinstance(line, str) else line
            try:
                await self._stream.send(data + b"\r\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise MailConnectionEndedError from error

    async def _fill(self) -> None:
        try:
            self._buffer += await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise MailConnectionEndedError from error


class ImapSession:
    """One connection; refuses commands that are not exactly in the expected form."""

    def __init__(self, server: "MailServer", conversation: ClientLines) -> None:
        self._server = server
        self._conversation = conversation
        self._say = conversation.say
        self._folder: list[Mail] = []
        self._is_signed_in = False
        self._announced = 0
        """Number of mails of the folder in the last `EXISTS`."""

    async def serve(self) -> None:
        """Answers commands until the client disconnects."""
        await self._say(f"* OK [CAPABILITY IMAP4rev1 {self._auth_methods}] ready")
        while True:
            tag, _, line = (await self._conversation.line()).decode().partition(" ")
            verb = line.partition(" ")[0].upper()
            if verb == "UID":
                verb = " ".join(line.split()[:2]).upper()
            if planned := self._server.plan(f"imap {verb}"):
                await self._say(planned.replace("TAG", tag))
                return
            ending = await self._answer(verb, line)
            if not ending.startswith("OK"):
                is_expected = "no such folder" in ending or "wrong" in ending
                self._server.faults += [] if is_expected else [f"IMAP {line}"]
            await self._send_news()
            await self._say(f"{tag} {ending}")

    async def _answer(self, verb: str, line: str) -> str:
        match verb:
            case "CAPABILITY":
                idle = " IDLE" if self._server.has_idle else ""
                await self._say(f"* CAPABILITY IMAP4rev1 {self._auth_methods} SPECIAL-USE{idle}")
                return "OK"
            case "AUTHENTICATE" if line == "AUTHENTICATE XOAUTH2":
                return await self._sign_in()
            case "AUTHENTICATE":
                await self._say("+ ")
                token = (await self._conversation.line()).decode()
                self._is_signed_in = self._server.opens(token)
                return "OK in" if self._is_signed_in else "NO [AUTHENTICATIONFAILED] wrong"
        return await self._work(verb, line) if self._is_signed_in else "BAD not logged in"

    @property
    def _auth_methods(self) -> str:
        return "AUTH=PLAIN" if self._server.tokens is None else "AUTH=XOAUTH2"

    async def _sign_in(self) -> str:
        await self._say("+ ")
        self._is_signed_in = self._server.admits((await self._conversation.line()).decode())
        if self._is_signed_in:
            return "OK in"
        await self._say("+ eyJzdGF0dXMiOiI0MDAifQ==")
        if await self._conversation.line():
            return "BAD no empty line"
        return "NO [AUTHENTICATIONFAILED] wrong"

    async def _work(self, verb: str, line: str) -> str:
        work = {
            "SELECT": self._select,
            "EXAMINE": self._select,
            "LIST": self._list,
            "UID SEARCH": self._search,
            "UID FETCH": self._fetch,
            "UID STORE": self._store,
            "APPEND": self._append,
            "IDLE": self._idle,
        }.get(verb)
        return await work(line) if work is not None else "BAD unknown"

    async def _list(self, line: str) -> str:
        if line != 'LIST "" "*"':
            return "BAD"
        await self._say('* LIST (\\HasNoChildren) "/" "INBOX"')
        await self._say('* LIST (\\HasNoChildren \\Sent) "/" "Sent"')
        return "OK"

    async def _select(self, line: str) -> str:
        match = _SELECT.fullmatch(line)
        if match is None:
            return "BAD"
        self._folder = self._server.inbox if match[2] == "INBOX" else self._server.sent
        if match[2] == "Sent" and not self._folder:
            return "NO no such folder"
        self._announced = len(self._folder)
        following = self._folder[-1].uid + 1 if self._folder else 1
        await self._say(
            f"* {self._announced} EXISTS",
            "* 0 RECENT",
            f"* OK [UIDVALIDITY {self._server.validity}] valid",
            f"* OK [UIDNEXT {following}] next",
        )
        return "OK [READ-WRITE] selected"

    async def _search(self, line: str) -> str:
        match = _SEARCH.fullmatch(line)
        if match is None:
            return "BAD"
        if match["id"]:
            uids = [mail.uid for mail in self._folder if mail.parsed["Message-ID"] == match["id"]]
        else:
            first = int(match["first"]) if match["first"] != "*" else 1 << 32
            uids = [mail.uid for mail in self._folder if mail.uid >= first]
            uids = uids or [mail.uid for mail in self._folder[-1:]]
        await self._say(" ".join(["* SEARCH", *map(str, uids)]))
        return "OK"

    async def _fetch(self, line: str) -> str:
        match = _FETCH.fullmatch(line)
        if match is None:
            return "BAD"
        numbers = {mail.uid: number for number, mail in enumerate(self._folder, 1)}
        number = numbers.get(int(match[1]))
        if number is None:
            return "OK nothing"
        mail = self._folder[number - 1]
        words = [f"UID {mail.uid}"]
        if "INTERNALDATE" in match[2]:
            words.append(f"INTERNALDATE {_ARRIVED}")
        if "BODYSTRUCTURE" in match[2]:
            words.append(f"BODYSTRUCTURE {structure(mail.parsed)}")
        data = section(mail, match[3])[: int(match[4])]
        words.append(f"BODY[{match[3]}]<0> {{{len(data)}}}")
        await self._say(f"* {number} FETCH ({' '.join(words)}".encode() + b"\r\n" + data + b")")
        return "OK"

    async def _store(self, line: str) -> str:
        match = _STORE.fullmatch(line)
        if match is None:
            return "BAD"
        for mail in self._folder:
            if mail.uid == int(match[1]):
                mail.flags.add("\\Seen")
        return "OK"

    async def _append(self, line: str) -> str:
        match = _APPEND.fullmatch(line)
        if match is None:
            return "BAD"
        await self._say("+ go on")
        data = await self._conversation.exactly(int(match[1]))
        if await self._conversation.line():
            return "BAD"
        sent = self._server.sent
        sent.append(Mail(len(sent) + 1, data))
        return "OK"

    async def _idle(self, line: str) -> str:
        if line != "IDLE":
            return "BAD"
        await self._say("+ idling")
        self._server.idling += 1
        self._server.wake()
        ending, has_ended = b"", False
        async with anyio.create_task_group() as tasks:

            async def send_news() -> None:
                with suppress(MailConnectionEndedError):
                    while True:
                        changed = self._server.changed
                        await self._send_news()
                        await changed.wait()

            tasks.start_soon(send_news)
            try:
                ending = await self._conversation.line()
            except MailConnectionEndedError:
                has_ended = True
            tasks.cancel_scope.cancel()
        if has_ended:
            raise MailConnectionEndedError
        return "OK" if ending == b"DONE" else "BAD"

    async def _send_news(self) -> None:
        if len(self._folder) != self._announced:
            self._announced = len(self._folder)
            await self._say(f"* {self._announced} EXISTS")


def section(mail: "Mail", name: str) -> bytes:
    """Returns the bytes of a section, such as `HEADER` or `1.2`."""
    head, _, _ = mail.data.partition(b"\r\n\r\n")
    if name == "HEADER":
        return head + b"\r\n\r\n"
    part = mail.parsed
    for number in map(int, name.split(".")):
        part = _children(part)[number - 1] if part.is_multipart() else part
    return str(part.get_payload()).encode("utf-8", "surrogateescape")


def _children(part: "Message[str, str]") -> "list[Message[str, str]]":
    return cast("list[Message[str, str]]", part.get_payload())


def structure(part: "Message[str, str]") -> str:
    """Returns the BODYSTRUCTURE of a message or part."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        inner = "".join(map(structure, _children(part)))
        return f'({inner} "{part.get_content_subtype()}" {_params(part, "content-type")} NIL NIL)'
    body = str(part.get_payload())
    kind = part.get_content_maintype()
    lines = f" {body.count(chr(10))}" if kind == "text" else ""
    encoding = part.get("content-transfer-encoding", "7bit")
    disposition = part.get_content_disposition()
    disposition_text = (
        f'("{disposition}" {_params(part, "content-disposition")})' if disposition else "NIL"
    )
    return (
        f'("{kind}" "{part.get_content_subtype()}" {_params(part, "content-type")} NIL NIL'
        f' "{encoding}" {len(body)}{lines} NIL {disposition_text} NIL NIL)'
    )


def _params(part: "Message[str, str]", header: str) -> str:
    pairs = (part.get_params([], header) or [])[1:]
    words = [f'"{name}" "{str(value).replace(chr(34), "")}"' for name, value in pairs]
    return f"({' '.join(words)})" if words else "NIL"
