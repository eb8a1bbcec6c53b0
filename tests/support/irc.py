"""A real ngircd, a person in it, and the example plugin as a channel of it."""

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import anyio

from scripts.requirements import ROOT
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.ports.channel import ChannelAdapter, ConnectionState, account_state
from skerry.sdk.api import PluginApi, sealed
from skerry.sdk.registrations import Registered
from skerry.testing.ports import reserved
from tests.support.mocks import program

EXAMPLE: Final = ROOT / "docs" / "examples" / "plugins" / "irc"
ROOM: Final = "#harbour"
NICK: Final = "skerry"
READY_SECONDS: Final = 60
_CONFIG: Final = """
[Global]
Name = irc.test.local
AdminEMail = root@localhost
Info = A server of a test
Listen = 127.0.0.1
Ports = {port}
ServerUID = irc
ServerGID = irc
[Limits]
MaxConnectionsIP = 0
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
"""


@contextmanager
def ngircd(folder: Path) -> Iterator[int]:
    """Runs a server; gives its port."""
    command = program("SKERRY_NGIRCD", "/usr/sbin/ngircd")
    folder.mkdir(parents=True, exist_ok=True)
    with reserved() as port, (folder / "log").open("wb") as log:
        config = folder / "ngircd.conf"
        config.write_text(_CONFIG.format(port=port), "utf-8")
        process = subprocess.Popen([command, "-n", "-f", str(config)], stdout=log, stderr=log)
        try:
            yield port
        finally:
            process.kill()
            process.wait()


async def connected(port: int) -> socket.socket:
    """Returns a connection to the server, once it serves."""
    with anyio.fail_after(READY_SECONDS):
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=READY_SECONDS)
            except ConnectionRefusedError:
                await anyio.sleep(0.02)


class Person:
    """Somebody in a channel; what is said while the bot is away is said when it has joined."""

    def __init__(self, connection: socket.socket, nick: str) -> None:
        self._socket = connection
        self._buffer = b""
        self._waiting: list[tuple[str, str]] = []
        self._pings = 0
        self._pongs = 0
        self.nick = nick
        self.mask = ""
        """The nick with user and host, as the server shows it to others."""
        self.bot = ""
        """The bot's nick, while it is in the channel."""
        self.heard: list[tuple[str, str]] = []
        """The bot's messages: channel or nick, and text."""
        self._write(f"NICK {nick}\r\nUSER {nick} 0 * :{nick}\r\nJOIN {ROOM}\r\n")
        while not self.mask:
            self.read()

    def say(self, text: str, target: str = "") -> None:
        """Writes to the channel, or to the bot where the target is empty."""
        self._waiting.append((target, text))
        self._say_what_waits()

    def raw(self, line: str) -> None:
        """Sends a line as it is."""
        self._write(f"{line}\r\n")

    def catch_up(self) -> None:
        """Reads until the server has answered a ping, and so everything that was before it."""
        self._pings += 1
        self._write(f"PING person-{self._pings}\r\n")
        while self._pongs < self._pings:
            self.read()

    async def follow(self) -> None:
        """Reads whenever there is something, until cancelled."""
        while True:
            await anyio.wait_readable(self._socket)
            self.read()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Waits for what `follow` reads."""
        with anyio.fail_after(60):
            while not is_so():  # noqa: ASYNC110 - plain values
                await anyio.sleep(0.01)

    def read(self) -> None:
        """Takes what has arrived; waits for something."""
        data = self._socket.recv(65_536)
        assert data, "the server closed the connection of the person"
        *lines, self._buffer = (self._buffer + data).split(b"\r\n")
        for line in lines:
            self._take(line.decode())

    def _take(self, line: str) -> None:
        source, _, rest = line.removeprefix(":").partition(" ")
        nick = source.partition("!")[0]
        if line.startswith("PING"):
            self._write(f"PONG {rest}\r\n")
        elif rest.startswith("PONG"):
            self._pongs += 1
        elif rest.startswith("JOIN") and nick == self.nick:
            self.mask = source
        elif rest.startswith("JOIN") and nick.startswith(NICK):
            self.bot = nick
            self._say_what_waits()
        elif rest.startswith(("QUIT", "PART", "KICK")) and nick == self.bot:
            self.bot = ""
        elif rest.startswith("PRIVMSG") and nick.startswith(NICK):
            target, _, text = rest.removeprefix("PRIVMSG ").partition(" :")
            self.heard.append((target, text))

    def _say_what_waits(self) -> None:
        while self.bot and self._waiting:
            target, text = self._waiting.pop(0)
            self._write(f"PRIVMSG {target or self.bot} :{text}\r\n")

    def _write(self, text: str) -> None:
        self._socket.sendall(text.encode())


@asynccontextmanager
async def person(port: int, nick: str = "alice") -> AsyncGenerator[Person]:
    """Connects somebody, who follows what is said while the block is on."""
    connection = await connected(port)
    with connection:
        somebody = Person(connection, nick)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(somebody.follow)
            yield somebody
            tasks.cancel_scope.cancel()


def example() -> ModuleType:
    """Returns the example, imported as a package of its own."""
    name = "irc_example"
    if name not in sys.modules:
        places = [str(EXAMPLE)]
        spec = spec_from_file_location(
            name, EXAMPLE / "__init__.py", submodule_search_locations=places
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def registered(port: int, data: Path, **more: Any) -> Registered:
    """Returns what the example registers for an account on the server."""
    config = {"server": f"tcp://127.0.0.1:{port}", "nick": NICK, "channels": [ROOM], **more}
    api = PluginApi("irc", config, data=data)
    example().register(api)
    return sealed(api)


class Irc:
    """The town of the contract."""

    team = Peer(PeerKind.GROUP, ROOM)

    def __init__(self, port: int, home: Path, alice: Person) -> None:
        self._port = port
        self._data = home / "data"
        self._alice = alice
        self._opened: list[Registered] = []
        self.alice = Peer(PeerKind.DIRECT, alice.mask)

    @property
    def adapter(self) -> ChannelAdapter:
        self._opened.append(registered(self._port, self._data))
        return self._opened[-1].channels[0]

    def close(self) -> None:
        for opened in self._opened:
            for close in opened.close:
                close()

    @asynccontextmanager
    async def at_work(self, adapter: ChannelAdapter) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.run, _pass_over)
            await self._alice.until(lambda: bool(self._alice.bot))
            assert account_state(adapter).state is ConnectionState.CONNECTED
            yield
            tasks.cancel_scope.cancel()
        await self._alice.until(lambda: not self._alice.bot)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        del name
        self._alice.say(text, ROOM if peer == self.team else "")
        return ""  # IRC has no ids of messages

    def received(self) -> list[tuple[str, str]]:
        self._alice.catch_up()
        ids = {ROOM: ROOM, self._alice.nick: self._alice.mask}
        return [(ids[target], text) for target, text in self._alice.heard]

    def typed(self) -> list[str]:
        return []


async def _pass_over(_: InboundMessage) -> None:
    """Takes a message and does nothing with it."""


@asynccontextmanager
async def town(home: Path) -> AsyncGenerator[Irc]:
    """Gives the platform of the contract."""
    with ngircd(home / "ngircd") as port:
        async with person(port) as alice:
            irc = Irc(port, home, alice)
            yield irc
            irc.close()
