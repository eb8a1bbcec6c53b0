"""Matrix at a real homeserver: pairing, groups, files, and kills counted from its rooms."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from msgspec.structs import replace

from skerry.channels.matrix.adapter import MatrixAdapter, open_account
from skerry.channels.matrix.config import MatrixAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind
from skerry.model.outbound import Additions, OutboundMedia, Settlement
from skerry.model.undelivered import MediaError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.contract.channels import CONTRACT, Clause, part
from tests.support.cli import run_command
from tests.support.synapse import Person, synapse

pytestmark = pytest.mark.full("Synapse")

POINTS = [
    "store.before-commit:1",
    "store.after-commit:1",
    "store.after-commit:2",
    "store.after-commit:3",
    "dispatch.accepted",
    "delivery.before-send",
    "delivery.after-send",
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


def config(bot: Person, **more: Any) -> dict[str, Any]:
    section = {"homeserver": bot.url, "accessToken": bot.token, "pollSeconds": 2}
    return {"channels": {"matrix": section | more}}


async def read(person: Person, room: str, sender: Person, count: int) -> list[str]:
    """Returns the messages of the sender, once there are as many."""
    with anyio.fail_after(120):
        while True:
            written = await texts(person, room, sender)
            if len(written) >= count:
                return written
            await anyio.sleep(0.1)


async def texts(person: Person, room: str, sender: Person) -> list[str]:
    """Returns the messages of the sender so far."""
    return await anyio.to_thread.run_sync(person.read, room, sender)


async def named(person: Person, room: str, sender: Person, names: Sequence[str]) -> None:
    """Waits until the sender's messages have all the names."""
    with anyio.fail_after(120):
        while True:
            written = "\n".join(await texts(person, room, sender))
            if all(name in written for name in names):
                return
            await anyio.sleep(0.2)


async def connected(home: Path) -> None:
    """Waits until the account has noted for the first time where it is."""
    with anyio.fail_after(120):
        while True:
            with (
                suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(f"file:{home}/state.sqlite?mode=ro", uri=True)) as database,
            ):
                if database.execute("SELECT 1 FROM channel_state").fetchone():
                    return
            await anyio.sleep(0.1)


async def killed(gateway: GatewayProcess, point: str) -> None:
    """Starts it with a fault, and waits until that has killed it."""
    try:
        await gateway.start("--fault", point)
        with anyio.move_on_after(60):
            await gateway.wait()
    except AssertionError:
        pass  # it was killed before it was ready
    if gateway.alive:
        await gateway.kill()


async def joined(person: Person, room: str, count: int) -> None:
    """Waits until as many people are in the room."""
    with anyio.fail_after(120):
        while True:
            events = await anyio.to_thread.run_sync(person.events, room)
            states = {
                row["state_key"]: row["content"]["membership"]
                for row in events
                if row["type"] == "m.room.member"
            }
            if Counter(states.values())["join"] >= count:
                return
            await anyio.sleep(0.1)


async def command_answer(gateway: GatewayProcess, *words: str) -> Any:
    """Returns the answer of a command of the command line."""
    environ = {
        "HOME": str(gateway.home),
        "SKERRY_STATE_DIR": str(gateway.home),
        "SKERRY_GATEWAY_URL": gateway.address.url,
        "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
    }
    completed = await run_command(*words, "--json", environ=environ)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


async def test_a_stranger_is_paired_and_answered_over_a_kill(tmp_path: Path, url: str) -> None:
    bot, alice = Person(url, "bot"), Person(url, "alice")
    async with running_gateway(home=tmp_path / "state", config=config(bot)) as gateway:
        room = alice.direct(bot)
        await joined(alice, room, 2)
        alice.say(room, "hello")
        (text,) = await read(alice, room, bot, 1)
        (request,) = (await command_answer(gateway, "pairing", "list"))["requests"]
        assert request["code"] in text
        assert request["senderId"] == alice.id
        await command_answer(gateway, "pairing", "approve", request["code"])
        alice.say(room, "are **you** there?")
        assert (await read(alice, room, bot, 2))[1] == "echo: are **you** there?"
        sent = [row for row in alice.events(room, bot.id) if row["type"] == "m.room.message"]
        html = sent[-1]["content"]["formatted_body"]
        assert "<strong>you</strong>" in html
        await gateway.kill()
        alice.say(room, "while you were away")
        await gateway.start()
        assert (await read(alice, room, bot, 3))[2:] == ["echo: while you were away"]
        edited = {"m.relates_to": {"rel_type": "m.replace", "event_id": sent[-1]["event_id"]}}
        alice.say(
            room,
            "* changed",
            **{"m.new_content": {"msgtype": "m.text", "body": "changed"}},
            **edited,
        )
        assert (await read(alice, room, bot, 4))[3] == "echo: changed"
        assert await gateway.stop() == 0
    assert len(alice.read(room, bot)) == 4


async def test_a_group_is_answered_where_it_is_listed_and_mentioned(
    tmp_path: Path, url: str
) -> None:
    bot, alice, bob = Person(url, "bot"), Person(url, "alice"), Person(url, "bob")
    room = alice.group(bob, bot)
    other = alice.group(bob, bot)
    configuration = config(bot, groups={room: {"tools": {"deny": ["*"]}}})
    async with running_gateway(home=tmp_path / "state", config=configuration) as gateway:
        await connected(tmp_path / "state")
        mention = {"m.mentions": {"user_ids": [bot.id]}}
        first = alice.say(room, "where is the boat?")
        alice.say(other, "hey", **mention)
        thread = {"rel_type": "m.thread", "event_id": first}
        bob.say(room, "tell her", **mention, **{"m.relates_to": thread})
        bob.say(room, "and me", **mention)
        assert sorted(await read(alice, room, bot, 2)) == ["echo: and me", "echo: tell her"]
        (threaded,) = (
            row["content"]["m.relates_to"]
            for row in alice.events(room, bot.id)
            if row["content"].get("body") == "echo: tell her"
        )
        assert (threaded["rel_type"], threaded["event_id"]) == ("m.thread", first)
        assert await gateway.stop() == 0
    assert not alice.read(other, bot)


async def test_a_refused_token_is_reported_with_its_remedy(url: str) -> None:
    settings = MatrixAccount.model_validate({"homeserver": url, "accessToken": "wrong"})
    adapter = open_account(settings, ChannelHost(AccountId("second"), SystemClock()))

    async def inbox(_: InboundMessage) -> None:
        raise AssertionError("nothing arrives")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        with anyio.fail_after(60):
            while adapter.state.state is ConnectionState.STARTING:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert adapter.state.state is ConnectionState.NEEDS_LOGIN
    assert "M_UNKNOWN_TOKEN" in adapter.state.message
    assert "--account second" in adapter.state.remedy
    assert (await adapter.probe()).state is ConnectionState.NEEDS_LOGIN
    await adapter.api.http.close()


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_each_point_loses_and_doubles_nothing(
    tmp_path: Path, url: str, point: str
) -> None:
    bot, alice = Person(url, "bot"), Person(url, "alice")
    configuration = config(bot, dmPolicy="open", allowFrom=["*"])
    async with running_gateway(home=tmp_path / "state", config=configuration) as gateway:
        room = alice.direct(bot)
        await joined(alice, room, 2)
        alice.say(room, "first")
        await read(alice, room, bot, 1)
        assert await gateway.stop() == 0
        names = ["one", "two", "three"]
        for name in names:
            alice.say(room, name)
        await killed(gateway, point)
        await gateway.start()
        await named(alice, room, bot, names)
        assert await gateway.stop() == 0
    answers = alice.read(room, bot)[1:]
    counted = Counter(name for name in names for text in answers if name in text)
    assert counted == dict.fromkeys(names, 1), answers
    order = [name for text in answers for name in names if name in text]
    assert order == names


class Matrix:
    """The homeserver with two rooms; implements `tests.contract.channels.Town`."""

    def __init__(self, url: str) -> None:
        self._bot, self._alice, third = (Person(url, name) for name in ("bot", "alice", "third"))
        room = self._alice.direct(self._bot)
        self._bot.join(room)
        self.alice = Peer(PeerKind.DIRECT, room)
        self.team = Peer(PeerKind.GROUP, self._alice.group(self._bot, third))
        self._cursor = MemoryCursor()
        self._made: list[MatrixAdapter] = []

    @property
    def adapter(self) -> MatrixAdapter:
        settings = {"homeserver": self._bot.url, "accessToken": self._bot.token, "pollSeconds": 2}
        host = ChannelHost(AccountId("default"), SystemClock(), self._cursor)
        self._made.append(open_account(MatrixAccount.model_validate(settings), host))
        return self._made[-1]

    async def close(self) -> None:
        """Closes the connections of the adapters."""
        for adapter in self._made:
            await adapter.api.http.close()

    async def begin(self) -> None:
        """Connects once: earlier messages are not answered."""
        adapter = self.adapter

        async def inbox(_: InboundMessage) -> None:
            raise AssertionError("nothing arrives")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.run, inbox)
            with anyio.fail_after(60):
                while not await self._cursor.read("since"):  # noqa: ASYNC110 - it tells nobody
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        del name
        return self._alice.say(peer.id, text)

    def received(self) -> list[tuple[str, str]]:
        return [
            (peer.id, text)
            for peer in (self.alice, self.team)
            for text in self._alice.read(peer.id, self._bot)
        ]

    def typed(self) -> list[str]:
        return [room for room in (self.alice.id, self.team.id) if self._bot.id in self._seen(room)]

    def _seen(self, room: str) -> list[str]:
        return self._alice.typing(room)


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
async def test_the_adapter_keeps_the_contract_of_channels(url: str, clause: Clause) -> None:
    town = await anyio.to_thread.run_sync(Matrix, url)
    await town.begin()
    await clause(town)
    await town.close()


async def test_a_part_that_is_sent_twice_is_one_event(url: str) -> None:
    town = await anyio.to_thread.run_sync(Matrix, url)
    await town.begin()
    whole = part(town.adapter, town.alice, "**hello**")
    first = await town.adapter.send(whole)
    assert await town.adapter.send(whole) == first
    assert town.received() == [(town.alice.id, "**hello**")]
    assert await town.adapter.settle(whole) is Settlement.DELIVERED
    await town.close()


async def test_a_file_comes_in_and_goes_out(url: str, tmp_path: Path) -> None:
    bot, alice = Person(url, "bot"), Person(url, "alice")
    room = alice.direct(bot)
    bot.join(room)
    settings = MatrixAccount.model_validate({"homeserver": url, "accessToken": bot.token})
    adapter = open_account(settings, ChannelHost(AccountId("default"), SystemClock()))
    (tmp_path / "a.txt").write_text("words")
    media = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "a.txt"), "text/plain")
    plain = part(adapter, Peer(PeerKind.DIRECT, room), "look")
    await adapter.send(replace(plain, additions=Additions(media=media)))
    (sent,) = (row for row in alice.events(room, bot.id) if row["type"] == "m.room.message")
    assert (sent["content"]["body"], sent["content"]["filename"]) == ("look", "a.txt")
    handle = sent["content"]["url"]
    file = Attachment(AttachmentKind.FILE, handle, "text/plain", "a.txt", 5)
    assert await adapter.fetch(file, 100) == b"words"
    with pytest.raises(MediaError, match="4"):
        await adapter.fetch(replace(file, size=0), 4)
    await adapter.api.http.close()
