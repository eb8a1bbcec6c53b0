"""The example plugin for IRC: its lines, and a server that behaves badly."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from skerry.model.errors import DeliveryRefusedError, PluginError
from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ConnectionState
from skerry.sdk.api import PluginApi
from skerry.sdk.sockets import ConnectionEndedError
from tests.support.irc import example, registered

SOURCE = "ada!~ada@host"


class Server:
    """A server of one account, which a test lets speak."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0
        self.answers: dict[str, str] = {"USER": ":irc 001 skerry :welcome"}
        """Lines that it sends for the first word of what it gets."""
        self._stream: anyio.abc.SocketStream | None = None

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        self._stream, buffer = stream, b""
        try:
            while True:
                buffer += await stream.receive()
                *whole, buffer = buffer.split(b"\r\n")
                for line in whole:
                    self.lines.append(line.decode())
                    await self._answer(self.lines[-1])
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async def _answer(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word in self.answers:
            await self.say(self.answers[word])
        elif word == "PING":
            await self.say(f":irc PONG irc {rest}")

    async def say(self, *lines: str) -> None:
        assert self._stream is not None
        await self._stream.send("".join(f"{line}\r\n" for line in lines).encode())

    async def end(self) -> None:
        assert self._stream is not None
        await self._stream.aclose()

    async def until(self, line: str) -> None:
        with anyio.fail_after(60):
            while line not in self.lines:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.01)


@asynccontextmanager
async def network() -> AsyncGenerator[Server]:
    server = Server()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.port = listener.extra(  # noqa: S610 - anyio's, not Django's
        anyio.abc.SocketAttribute.local_port
    )

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await server.serve(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield server
        tasks.cancel_scope.cancel()


class Account:
    """The account and the messages in its inbox."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.messages: list[InboundMessage] = []

    async def until(self, state: ConnectionState) -> None:
        with anyio.fail_after(60):
            while self.adapter.state.state is not state:  # noqa: ASYNC110 - a plain value
                await anyio.sleep(0.01)

    async def taken(self, count: int) -> list[str]:
        with anyio.fail_after(60):
            while len(self.messages) < count:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.01)
        return [message.text for message in self.messages]

    def part(self, text: str, to: str = SOURCE) -> OutboundPart:
        channel, account = self.adapter.channel, self.adapter.account
        address = ReplyTo(channel, account, Peer(PeerKind.DIRECT, to), "1")
        return OutboundPart(1, RunId("r"), 0, 0, address, text)


@asynccontextmanager
async def running(server: Server, home: Path, **more: Any) -> AsyncGenerator[Account]:
    opened = registered(server.port, home, **more)
    account = Account(opened.channels[0])

    async def inbox(message: InboundMessage) -> None:
        account.messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(account.adapter.run, inbox)
        yield account
        tasks.cancel_scope.cancel()
    for close in opened.close:
        close()


async def test_an_account_enters_and_tells_private_messages_from_those_of_a_channel(
    tmp_path: Path,
) -> None:
    async with network() as server, running(server, tmp_path, password="pw") as account:  # noqa: S106 - of nobody
        await server.until("JOIN :#harbour")
        assert server.lines[:3] == ["PASS :pw", "NICK :skerry", "USER skerry 0 * :Skerry"]
        await server.say(
            "PING :are you there",
            f":{SOURCE} PRIVMSG skerry :\x02hello\x0f \x0304,01there",
            f":{SOURCE} PRIVMSG #Harbour :Skerry: /status",
            f":{SOURCE} PRIVMSG #harbour :not for it",
            f":{SOURCE} PRIVMSG skerry :\x01ACTION waves\x01",
            f":{SOURCE} PRIVMSG skerry :\x01VERSION\x01",
            ":irc NOTICE skerry :no message",
            f":{SOURCE} PRIVMSG skerry",
            "",
        )
        assert await account.taken(4) == ["hello there", "/status", "not for it", "* ada waves"]
        await server.until("PONG :are you there")
        private, addressed, other, _ = account.messages
        assert private.peer == Peer(PeerKind.DIRECT, SOURCE)
        assert (private.sender_id, private.sender_name) == (SOURCE, "ada")
        assert addressed.peer == Peer(PeerKind.GROUP, "#harbour")
        assert (addressed.mentions_me, other.mentions_me) == (True, False)
        assert len({message.message_id for message in account.messages}) == 4


async def test_a_nick_that_is_taken_gets_a_line_behind_it(tmp_path: Path) -> None:
    async with network() as server:
        server.answers = {"USER": ":irc 433 * skerry :in use"}
        async with running(server, tmp_path) as account:
            await server.until("NICK :skerry_")
            await server.say(":irc 001 skerry_ :welcome")
            await account.until(ConnectionState.CONNECTED)
            assert account.adapter.state.name == "skerry_"


async def test_a_password_that_is_refused_needs_a_person(tmp_path: Path) -> None:
    async with network() as server:
        server.answers = {"USER": ":irc 464 * :bad password"}
        async with running(server, tmp_path) as account:
            await account.until(ConnectionState.NEEDS_LOGIN)
            assert "password is refused" in account.adapter.state.message
            with pytest.raises(DeliveryDelayedError):
                await account.adapter.send(account.part("x"))


async def test_a_part_is_sent_line_by_line_and_a_refusal_is_for_good(tmp_path: Path) -> None:
    async with network() as server, running(server, tmp_path) as account:
        await account.until(ConnectionState.CONNECTED)
        await account.adapter.send(account.part("one\n\ntwo\0"))
        assert server.lines[-3:-1] == ["PRIVMSG ada :one", "PRIVMSG ada :two"]
        server.answers["PRIVMSG"] = ":irc 401 skerry Ada :no such nick"
        with pytest.raises(DeliveryRefusedError, match="401: no such nick"):
            await account.adapter.send(account.part("three"))
        for name in ("", "a b", "a,b", ":a", "a\r\nQUIT"):
            with pytest.raises(DeliveryRefusedError, match="is no nick"):
                await account.adapter.send(account.part("x", name))


async def test_a_connection_that_ends_is_opened_again_and_an_open_part_is_unknown(
    tmp_path: Path,
) -> None:
    async with network() as server, running(server, tmp_path) as account:
        await account.until(ConnectionState.CONNECTED)
        server.answers["PING"] = ":irc NOTICE skerry :no answer"
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await server.until("PRIVMSG ada :x")
                await server.end()

            tasks.start_soon(end)
            with pytest.raises(ConnectionEndedError, match="did not say"):
                await account.adapter.send(account.part("x"))
        await account.until(ConnectionState.RETRYING)
        await account.until(ConnectionState.CONNECTED)


async def test_a_message_that_was_not_taken_is_given_to_the_next_process(tmp_path: Path) -> None:
    async with network() as server:
        opened = registered(server.port, tmp_path)

        async def full(_: InboundMessage) -> None:
            raise OSError("the disk is full")

        async with anyio.create_task_group() as tasks:

            async def speak() -> None:
                await server.until("JOIN :#harbour")
                await server.say(f":{SOURCE} PRIVMSG skerry :hello")

            tasks.start_soon(speak)
            with pytest.raises(OSError, match="disk is full"), anyio.fail_after(60):
                await opened.channels[0].run(full)
        for close in opened.close:
            close()
        async with running(server, tmp_path) as account:
            assert await account.taken(1) == ["hello"]
            assert account.messages[0].message_id == "irc-1"


@pytest.mark.parametrize(
    "config", [{}, {"server": "http://x:1"}, {"server": "tcp://x:1", "nick": "1 2"}, {"sever": "x"}]
)
def test_a_wrong_setting_keeps_it_from_loading(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"plugins\.entries\.irc\.config"):
        example().register(PluginApi("irc", config, data=tmp_path))


def test_lines_are_read_and_written_as_the_protocol_has_them() -> None:
    line: Any = import_module(f"{example().__name__}.line")
    read = line.read
    assert read(b":a!b@c PRIVMSG #x :hi there").words == ("#x", "hi there")
    assert read(b"@tag=1 :a PING x").command == "PING"
    assert read(b"\xfcmlaut").command == "ÜMLAUT"
    assert read(b"") is None
    assert line.written("PRIVMSG", "#x", "a\r\nQUIT b\0") == b"PRIVMSG #x :a QUIT b\r\n"
    assert line.folded("Nick[]\\^") == "nick{}|~"
