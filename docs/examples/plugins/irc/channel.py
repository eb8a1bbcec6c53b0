"""The account: joins, receives, sends, and connects again."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from skerry.sdk.channels import (
    AccountId,
    AccountState,
    ChannelId,
    ConnectionState,
    DeliveryDelayedError,
    DeliveryRefusedError,
    InboundMessage,
    Inbox,
    OutboundPart,
    Peer,
    PeerKind,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)
from skerry.sdk.sockets import Connection, ConnectionEndedError

from .line import Line, folded, is_name, plain, read, written
from .waiting import Row, Waiting

SILENT_SECONDS = 120.0
"""Seconds without a line before a `PING`, and then before the connection is closed."""
ANSWER_SECONDS = 10.0
"""Seconds that the server has to accept a part."""
LONGEST_WAIT = 60.0
LOGIN_WAIT = 300.0
REFUSED = {"401", "402", "403", "404", "405", "407", "408", "411", "412", "442", "477", "531"}
"""Answers to a message that the server will never accept."""
TAKEN_NICK = {"432", "433", "436", "437"}
NO_ENTRY = {"464": "the password is refused", "465": "the account is banned"}


class Clock(Protocol):
    """A clock, as `api.clock` is one."""

    def now_ms(self) -> int:
        """Returns the time in milliseconds since 1970."""
        ...


class NoEntryError(Exception):
    """The server refuses the account."""


class _Sent:
    """A part that was sent: the server answers `PING token` after everything sent before it."""

    def __init__(self, target: str, token: str) -> None:
        self.target = folded(target)
        self.token = token
        self.refusal = ""
        self.is_taken = False
        self.answered = anyio.Event()


class IrcChannel:
    """One account. Implements the port `ChannelAdapter`, and reports its state."""

    channel = ChannelId("irc")
    account = AccountId("default")
    text_limit = 400
    text_unit = TextUnit.BYTES

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        clock: Clock,
        waiting: Waiting,
        *,
        nick: str,
        password: str,
        rooms: tuple[str, ...],
    ) -> None:
        self.state = AccountState()
        self._connect = connect
        self._clock = clock
        self._waiting = waiting
        self._wanted_nick = nick
        self._nick = nick
        self._password = password
        self._rooms = rooms
        self._connection: Connection | None = None
        """The connection, once the server has accepted the account."""
        self._sent: _Sent | None = None
        self._count = 0
        self._failures = 0

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled. A message is stored before it is processed."""
        while True:
            try:
                await self._stay(inbox)
            except ConnectionEndedError as error:
                self._failures += 1
                remedy = "It is tried again at least once a minute."
                self.state = AccountState(ConnectionState.RETRYING, str(error), remedy)
                await anyio.sleep(min(2.0 ** (self._failures - 1), LONGEST_WAIT))
            except NoEntryError as error:
                remedy = "Correct plugins.entries.irc.config."
                self.state = AccountState(ConnectionState.NEEDS_LOGIN, str(error), remedy)
                await anyio.sleep(LOGIN_WAIT)

    async def _stay(self, inbox: Inbox) -> None:
        await self._hand_in(inbox)  # messages that an earlier process had received
        connection = await self._connect()
        try:
            self._nick = self._wanted_nick
            if self._password:
                await connection.write(written("PASS", self._password))
            await connection.write(written("NICK", self._nick))
            await connection.write(written("USER", self._wanted_nick, "0", "*", "Skerry"))
            while True:
                await self._take(connection, await self._next(connection), inbox)
        finally:
            self._connection = None
            connection.close()
            if self._sent is not None:
                self._sent.answered.set()  # unknown whether it arrived

    async def _next(self, connection: Connection) -> Line | None:
        data = await connection.read_line(SILENT_SECONDS)
        if data is None:
            await connection.write(written("PING", "skerry"))
            data = await connection.read_line(SILENT_SECONDS)
        if data is None:
            raise ConnectionEndedError("The server answers nothing.")
        return read(data)

    async def _take(self, connection: Connection, line: Line | None, inbox: Inbox) -> None:
        match line:
            case Line(command="PING"):
                await connection.write(written("PONG", line.last))
            case Line(command="PONG"):
                self._answer(line.last)
            case Line(command="PRIVMSG", words=(_, _, *_)):
                await self._keep(line)
                await self._hand_in(inbox)
            case Line(command="NICK") if folded(line.nick) == folded(self._nick):
                self._nick = line.last
            case Line():
                await self._follow(connection, line)
            case None:
                pass

    async def _follow(self, connection: Connection, line: Line) -> None:
        """Handles an answer of the server, whose command has three digits."""
        if line.command == "001":
            await self._enter(connection, line)
        elif line.command in TAKEN_NICK and self._connection is None:
            self._nick += "_"
            await connection.write(written("NICK", self._nick))
        elif line.command in NO_ENTRY:
            raise NoEntryError(f"{NO_ENTRY[line.command]}: {line.last}")
        elif line.command in REFUSED:
            self._refuse(line)

    async def _enter(self, connection: Connection, line: Line) -> None:
        """Joins the channels, once the server has accepted the account."""
        self._nick = line.words[0] if line.words else self._nick
        self._connection, self._failures = connection, 0
        self.state = AccountState(ConnectionState.CONNECTED, name=self._nick)
        for room in self._rooms:
            await connection.write(written("JOIN", room))

    async def _keep(self, line: Line) -> None:
        """Stores a message of a person; ignores requests between programs (CTCP)."""
        target, text = line.words[0], plain(line.last)
        if text.startswith("\x01"):
            name, _, rest = text.strip("\x01").partition(" ")
            if name != "ACTION":
                return
            text = f"* {line.nick} {rest}"
        addressed, _, rest = text.partition(" ")
        is_for_me = folded(addressed.rstrip(":,")) == folded(self._nick)
        if is_for_me and addressed[-1] in ":,":
            text = rest.strip()
        room = "" if folded(target) == folded(self._nick) else folded(target)
        if text and "!" in line.source:
            now = self._clock.now_ms()
            await self._waiting.add(line.source, room, text, now, is_for_me=is_for_me)

    async def _hand_in(self, inbox: Inbox) -> None:
        """Passes all waiting messages to the gateway; deletes each when it was accepted."""
        while (row := await self._waiting.first()) is not None:
            await inbox(self._message(row))
            await self._waiting.drop(row[0])

    def _message(self, row: Row) -> InboundMessage:
        serial, source, room, text, is_for_me, at = row
        # Anybody can take a free nick, so the whole source is the id of a person.
        peer = Peer(PeerKind.GROUP, room) if room else Peer(PeerKind.DIRECT, source)
        return InboundMessage(
            channel=self.channel,
            account=self.account,
            peer=peer,
            sender_id=source,
            text=text,
            message_id=f"irc-{serial}",
            received_at=at,
            sender_name=source.partition("!")[0],
            sender_username=source.partition("!")[0],
            group_name=room,
            mentions_me=is_for_me,
        )

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends the lines of a part; returns when the server has processed them."""
        target = part.to.peer.id.partition("!")[0]
        if not is_name(target):
            raise DeliveryRefusedError(f"{target!r} is no nick and no channel of IRC.")
        connection = self._connection
        if connection is None:
            raise DeliveryDelayedError(f"IRC is not connected: {self.state.message}")
        self._count += 1
        self._sent = sent = _Sent(target, f"part-{self._count}")
        try:
            for text in part.text.splitlines():
                if text.strip():
                    await connection.write(written("PRIVMSG", target, text))
            await connection.write(written("PING", sent.token))
            with anyio.move_on_after(ANSWER_SECONDS):
                await sent.answered.wait()
        finally:
            self._sent = None
        if sent.refusal:
            raise DeliveryRefusedError(sent.refusal)
        if not sent.is_taken:
            raise ConnectionEndedError("The server did not say that it has the message.")
        return Receipt(())

    def _answer(self, token: str) -> None:
        if self._sent is not None and self._sent.token == token:
            self._sent.is_taken = True
            self._sent.answered.set()

    def _refuse(self, line: Line) -> None:
        about = line.words[1] if len(line.words) > 1 else ""
        if self._sent is not None and folded(about) == self._sent.target:
            self._sent.refusal = f"IRC answered {line.command}: {line.last}"

    async def typing(self, to: ReplyTo) -> None:
        """Shows nothing: IRC has no sign for it."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns UNKNOWN: an account cannot read what it has sent."""
        del part
        return Settlement.UNKNOWN
