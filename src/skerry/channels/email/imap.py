"""A connection to an IMAP server (RFC 3501 and 9051), with the commands that a mailbox needs."""

import base64
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import anyio
from msgspec import Struct, field

from skerry.channels.email.config import Security
from skerry.channels.email.imap_wire import (
    LITERAL,
    ImapResponse,
    ImapSyntaxError,
    Word,
    pairs,
    parse,
    quoted,
)
from skerry.channels.email.line_stream import (
    LineStream,
    Login,
    MailEndpoint,
    UnreadableError,
    connected,
    within,
)
from skerry.sdk.channel_errors import PlatformError

SECONDS: Final = 12.0
"""Time for a command, the transfer of an attachment included."""
_SMALL: Final = 256 * 1024
"""Bytes of the literals of a response to a command that requests no content."""
_MAX_RESPONSES: Final = 20_000
_LOGIN_CODES: Final = ("[AUTHENTICATIONFAILED]", "[AUTHORIZATIONFAILED]", "[EXPIRED]")
_TEMPORARY_CODES: Final = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[CONTACTADMIN]")


class SelectedFolder(Struct, frozen=True):
    """A folder that was selected."""

    validity: int
    """UIDVALIDITY: UIDs keep their meaning while this value stays the same."""
    next_uid: int
    """UID of the next message at least; 0 when the server does not name it."""


class FetchedMail(Struct, frozen=True):
    """One message of a folder, without its content."""

    uid: int
    arrived: int
    """Seconds since 1970."""
    structure: Word
    head: bytes


class Imap(Struct):
    """A connection, used by one task."""

    lines: LineStream
    capabilities: frozenset[str] = frozenset()
    has_arrivals: bool = False
    """True when the server announced new messages in the folder; the reader resets it."""
    _count: int = 0
    _news: list[ImapResponse] = field(default_factory=list)

    @property
    def _endpoint(self) -> MailEndpoint:
        return self.lines.endpoint

    async def greet(self) -> None:
        """Receives the greeting; encrypts the connection by STARTTLS when that is configured."""
        with within(SECONDS, self._endpoint):
            greeting = await self._response(_SMALL)
        if greeting.name != "OK":
            raise PlatformError(
                f"{self._endpoint.name} sent an unexpected greeting: {greeting.text[:200]!r}."
            )
        if self._endpoint.security is Security.STARTTLS:
            await self.command("STARTTLS")
            await self.lines.encrypt()
        await self._ask_capabilities()

    async def log_in(self, login: Login) -> None:
        """Logs in.

        Raises:
            PlatformError: with `is_login` where the server refuses the name, password or token.
        """
        name, password = login.name, login.password
        if login.token:
            await self._sign_in(login.xoauth2)
        elif "AUTH=PLAIN" in self.capabilities:
            answer = base64.b64encode(f"\0{name}\0{password}".encode()).decode()
            self._count += 1
            await self.lines.write(f"a{self._count} AUTHENTICATE PLAIN\r\n".encode())
            with within(SECONDS, self._endpoint):
                question = await self._response(_SMALL)
                if question.tag == "+":
                    await self.lines.write(answer.encode() + b"\r\n")
                    question = await self._ending(_SMALL)
            self._judge_login(question)
        elif "LOGINDISABLED" in self.capabilities:
            message = f"{self._endpoint.name} accepts no password over this connection."
            raise PlatformError(message, is_login=True)
        else:
            try:
                command = f"LOGIN {quoted(name)} {quoted(password)}"
            except ImapSyntaxError as error:
                raise PlatformError(str(error), is_login=True) from None
            self._judge_login(await self._ended(command))
        await self._ask_capabilities()

    async def _sign_in(self, answer: str) -> None:
        if "AUTH=XOAUTH2" not in self.capabilities:
            message = f"{self._endpoint.name} does not support the login by XOAUTH2."
            raise PlatformError(message, is_login=True)
        self._count += 1
        await self.lines.write(f"a{self._count} AUTHENTICATE XOAUTH2\r\n".encode())
        with within(SECONDS, self._endpoint):
            question = await self._ending(_SMALL, stop_at_question=True)
            if question.tag == "+":
                await self.lines.write(answer.encode() + b"\r\n")
                question = await self._ending(_SMALL, stop_at_question=True)
            if question.tag == "+":  # the reason of a refusal, which requires an answer
                await self.lines.write(b"\r\n")
                question = await self._ending(_SMALL)
        self._judge_login(question)

    def _judge_login(self, ending: ImapResponse) -> None:
        if ending.name == "OK":
            return
        reason = ending.text[:200]
        is_temporary = any(code in reason.upper() for code in _TEMPORARY_CODES)
        is_login = any(code in reason.upper() for code in _LOGIN_CODES) or not is_temporary
        raise PlatformError(f"{self._endpoint.name} refuses the login: {reason}", is_login=is_login)

    async def _ask_capabilities(self) -> None:
        words = [word for news in await self.command("CAPABILITY") for word in news.words]
        self.capabilities = frozenset(word.upper() for word in words if isinstance(word, str))

    async def select(self, folder: str, *, read_only: bool = False) -> SelectedFolder:
        """Opens a folder. Raises `PlatformError` when it does not exist."""
        verb = "EXAMINE" if read_only else "SELECT"
        news = await self.command(f"{verb} {_named(folder)}")
        values = {"UIDVALIDITY": 0, "UIDNEXT": 0}
        for response in news:
            for name in values:
                _, marker, value = response.text.upper().partition(f"[{name} ")
                number = value.partition("]")[0]
                if marker and number.isdecimal():
                    values[name] = int(number)
        return SelectedFolder(values["UIDVALIDITY"], values["UIDNEXT"])

    async def search(self, criteria: str) -> list[int]:
        """Returns the UIDs of the messages that match, in order."""
        news = await self.command(f"UID SEARCH {criteria}")
        words = [
            word for response in news if response.name == "SEARCH" for word in response.words[1:]
        ]
        return sorted({int(w) for w in words if isinstance(w, str) and w.isdecimal()})

    async def look(self, uid: int, head_bytes: int) -> FetchedMail | None:
        """Returns a message without its content; None when it was deleted."""
        items = f"(UID INTERNALDATE BODYSTRUCTURE BODY.PEEK[HEADER]<0.{head_bytes}>)"
        fields = await self._fetch(uid, items, head_bytes)
        if fields is None:
            return None
        head = _literal(fields, "BODY[HEADER]")
        return FetchedMail(
            uid, _seconds(fields.get("INTERNALDATE")), fields.get("BODYSTRUCTURE"), head
        )

    async def content(self, uid: int, number: str, max_bytes: int) -> bytes:
        """Returns the first bytes of a part, in its encoding; empty when the mail was deleted."""
        fields = await self._fetch(uid, f"(UID BODY.PEEK[{number}]<0.{max_bytes}>)", max_bytes)
        return _literal(fields, f"BODY[{number}]") if fields else b""

    async def _fetch(self, uid: int, items: str, max_bytes: int) -> dict[str, Word] | None:
        for response in await self.command(
            f"UID FETCH {uid} {items}", max_bytes=max_bytes + _SMALL
        ):
            if response.name == "FETCH" and isinstance(response.words[-1], list):
                fields = dict(pairs(response.words[-1]))
                if fields.get("UID") == str(uid):
                    return fields
        return None

    async def mark_seen(self, uid: int) -> None:
        """Marks a message as read."""
        await self.command(f"UID STORE {uid} +FLAGS.SILENT (\\Seen)")

    async def sent_folder(self) -> str:
        """Returns the folder that the server marks as that of sent mail, or `Sent`."""
        if "SPECIAL-USE" in self.capabilities:
            for response in await self.command('LIST "" "*"'):
                padded: list[Word] = [*response.words, None, None, None, None]
                flags, name = padded[1], padded[3]
                low = [str(flag).lower() for flag in flags] if isinstance(flags, list) else []
                if response.name == "LIST" and "\\sent" in low:
                    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        return "Sent"

    async def append(self, folder: str, message: bytes) -> None:
        """Stores a message in a folder; creates the folder when it is missing."""
        answer = await self._append(folder, message)
        if answer.name == "NO":
            await self._ended(f"CREATE {_named(folder)}")
            answer = await self._append(folder, message)
        if answer.name != "OK":
            raise PlatformError(
                f"{self._endpoint.name} cannot store a mail in {folder}: {answer.text[:200]}"
            )

    async def _append(self, folder: str, message: bytes) -> ImapResponse:
        head = f"APPEND {_named(folder)} (\\Seen) {{{len(message)}}}"
        self._count += 1
        await self.lines.write(f"a{self._count} {head}\r\n".encode())
        with within(SECONDS, self._endpoint):
            answer = await self._ending(_SMALL, stop_at_question=True)
            if answer.tag == "+":
                await self.lines.write(message + b"\r\n")
                answer = await self._ending(_SMALL)
        return answer

    async def idle(self, seconds: float, waiting: Callable[[], None]) -> None:
        """Waits until a mail arrives in the folder, or the time is over.

        `waiting` is called when the server began to watch the folder.
        """
        self._count += 1
        await self.lines.write(f"a{self._count} IDLE\r\n".encode())
        with within(SECONDS, self._endpoint):
            answer = await self._ending(_SMALL, stop_at_question=True)
        if answer.tag != "+":
            raise PlatformError(f"{self._endpoint.name} refuses IDLE: {answer.text[:200]}")
        waiting()
        with anyio.move_on_after(seconds):
            while not self.has_arrivals:
                self._note(await self._response(_SMALL))
        await self.lines.write(b"DONE\r\n")
        with within(SECONDS, self._endpoint):
            await self._ending(_SMALL)
        self._news.clear()

    async def command(self, text: str, *, max_bytes: int = _SMALL) -> list[ImapResponse]:
        """Returns the untagged responses to a command, with at most `max_bytes` of literals.

        Raises:
            PlatformError: the server refuses the command, or does not answer in time.
        """
        ending = await self._ended(text, max_bytes)
        if ending.name != "OK":
            verb = " ".join(text.split()[:2])
            raise PlatformError(f"{self._endpoint.name} refuses {verb}: {ending.text[:200]}")
        news, self._news = self._news, []
        return news

    async def _ended(self, text: str, max_bytes: int = _SMALL) -> ImapResponse:
        self._news.clear()
        self._count += 1
        await self.lines.write(f"a{self._count} {text}\r\n".encode())
        with within(SECONDS, self._endpoint):
            return await self._ending(max_bytes)

    async def _ending(self, max_bytes: int, *, stop_at_question: bool = False) -> ImapResponse:
        """Returns the response that ends the last command; stores the untagged ones before it."""
        for _ in range(_MAX_RESPONSES):
            response = await self._response(max_bytes)
            if response.tag == f"a{self._count}" or (stop_at_question and response.tag == "+"):
                return response
            self._note(response)
        raise PlatformError(f"{self._endpoint.name} does not end its answer.")

    def _note(self, response: ImapResponse) -> None:
        if response.name == "BYE":
            raise PlatformError(f"{self._endpoint.name} ends the connection: {response.text[:200]}")
        self.has_arrivals |= response.name == "EXISTS"
        self._news.append(response)

    async def _response(self, max_bytes: int) -> ImapResponse:
        parts = [await self.lines.line()]
        remaining = max_bytes
        while match := LITERAL.search(parts[-1]):
            size = int(match[1])
            remaining -= size
            if remaining < 0:
                message = f"{self._endpoint.name} sent more than the requested {max_bytes} bytes."
                raise UnreadableError(message)
            parts.append(await self.lines.exactly(size))
            parts.append(await self.lines.line())
        try:
            return parse(parts)
        except ImapSyntaxError as error:
            raise UnreadableError(f"{self._endpoint.name}: {error}") from error


@asynccontextmanager
async def logged_in(endpoint: MailEndpoint, login: Login) -> AsyncGenerator[Imap]:
    """Connects and logs in for the block. Raises `PlatformError`."""
    async with connected(endpoint) as lines:
        imap = Imap(lines)
        await imap.greet()
        await imap.log_in(login)
        yield imap


def _named(folder: str) -> str:
    try:
        return quoted(folder)
    except ImapSyntaxError as error:
        raise PlatformError(f"The folder {folder!r} cannot be named: {error}") from error


def _literal(fields: dict[str, Word], name: str) -> bytes:
    for field_name in (name, f"{name}<0>"):
        value = fields.get(field_name)
        if isinstance(value, bytes):
            return value
    return b""


def _seconds(word: Word) -> int:
    try:
        text = word.decode() if isinstance(word, bytes) else ""
        return round(datetime.strptime(text.strip(), "%d-%b-%Y %H:%M:%S %z").timestamp())
    except ValueError:
        return 0
