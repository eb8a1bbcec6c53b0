"""Encrypted rooms at a real homeserver, with a client of others on the other side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from skerry.channels.matrix.adapter import MatrixAdapter, open_account
from skerry.channels.matrix.api import MatrixApi
from skerry.channels.matrix.config import MatrixAccount
from skerry.channels.matrix.crypto import NoCrypto
from skerry.channels.matrix.encryption.signing import is_signed
from skerry.channels.matrix.undecrypted import GRACE_MS, NOTICE
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind
from skerry.model.outbound import Additions, OutboundMedia, Settlement
from skerry.sdk.channel_host import ChannelHost, MemoryCursor, MemoryVault
from skerry.testing.clock import FakeClock
from skerry.testing.gateway import running_gateway
from tests.contract.channels import CONTRACT, Clause, part, taken
from tests.e2e.test_matrix import command_answer, config, connected, joined
from tests.support.nio import Nio, client, texts
from tests.support.synapse import Person, synapse

pytestmark = pytest.mark.full("Synapse and matrix-nio")

OPEN = {"dmPolicy": "open", "allowFrom": ["*"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


@pytest.fixture(scope="module")
def nio(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nio]:
    with client(Person(url, "alice"), tmp_path_factory.mktemp("nio")) as nio:
        yield nio


def all_is_encrypted(person: Person, room: str, sender: Person) -> None:
    """Fails if the room ever got a message as text."""
    kinds = {row["type"] for row in person.events(room, sender.id)}
    assert "m.room.encrypted" in kinds
    assert "m.room.message" not in kinds, kinds


async def test_an_encrypted_conversation_goes_both_ways(tmp_path: Path, url: str, nio: Nio) -> None:
    bot = Person(url, "bot")
    async with running_gateway(home=tmp_path / "state", config=config(bot, **OPEN)) as gateway:
        await connected(tmp_path / "state")
        room = await nio.do("create", invite=[bot.id])
        await joined(nio.person, room, 2)
        first = await nio.say(room, "are **you** there?")
        (answer,) = await nio.read(room, bot, 1)
        assert texts([answer]) == ["echo: are **you** there?"]
        assert "<strong>you</strong>" in answer["content"]["formatted_body"]
        thread = {"rel_type": "m.thread", "event_id": first}
        await nio.say(room, "in a thread", **{"m.relates_to": thread})
        edit = {"rel_type": "m.replace", "event_id": first}
        changed = {"msgtype": "m.text", "body": "changed"}
        await nio.say(room, "* changed", **{"m.new_content": changed, "m.relates_to": edit})
        answers = await nio.read(room, bot, 3)
        assert texts(answers)[1:] == ["echo: in a thread", "echo: changed"]
        assert answers[1]["content"]["m.relates_to"]["event_id"] == first
        status = await command_answer(gateway, "channels", "status")
        assert await gateway.stop() == 0
    all_is_encrypted(nio.person, room, bot)
    (account,) = status["channelAccounts"]["matrix"]
    (fingerprint,) = await nio.do("fingerprint", user=bot.id)
    assert fingerprint in account["about"].replace(" ", "")
    assert account["lastError"] is None


async def test_the_device_is_signed_by_its_account(tmp_path: Path, url: str) -> None:
    bot = Person(url, "bot")
    async with running_gateway(home=tmp_path / "state", config=config(bot)) as gateway:
        await connected(tmp_path / "state")
        payload = bot.keys()
        assert await gateway.stop() == 0
    device = payload["device_keys"][bot.id][bot.device]
    (key,) = payload["self_signing_keys"][bot.id]["keys"].values()
    (master,) = payload["master_keys"][bot.id]["keys"].values()
    assert is_signed(payload["self_signing_keys"][bot.id], bot.id, master, master)
    assert is_signed(device, bot.id, key, key)


class SealedMatrix:
    """The homeserver with two encrypted rooms; implements `tests.contract.channels.Town`."""

    def __init__(self, url: str, nio: Nio) -> None:
        self.bot, third = Person(url, "bot"), Person(url, "third")
        self.nio = nio
        self.third = third
        self._rooms: list[str] = []
        self.alice = self.team = Peer(PeerKind.DIRECT, "")
        self._cursor, self._vault = MemoryCursor(), MemoryVault()
        self.clock = FakeClock(SystemClock().now_ms())
        self._made: list[MatrixAdapter] = []

    async def begin(self) -> None:
        """Connects once, so that the device has its keys, and makes the rooms."""
        await self._connect()
        for people in ([self.bot], [self.bot, self.third]):
            room = await self.nio.do("create", invite=[person.id for person in people])
            for one in people:
                await anyio.to_thread.run_sync(one.join, room)
            await joined(self.nio.person, room, len(people) + 1)
            self._rooms.append(room)
        self.alice = Peer(PeerKind.DIRECT, self._rooms[0])
        self.team = Peer(PeerKind.GROUP, self._rooms[1])
        await self._connect()

    async def _connect(self) -> None:
        adapter, before = self.adapter, await self._cursor.read("since")

        async def inbox(_: InboundMessage) -> None:
            raise AssertionError("nothing arrives")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.run, inbox)
            with anyio.fail_after(60):
                while await self._cursor.read("since") == before:  # noqa: ASYNC110 - it tells nobody
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()

    @property
    def adapter(self) -> MatrixAdapter:
        settings = {"homeserver": self.bot.url, "accessToken": self.bot.token, "pollSeconds": 2}
        host = ChannelHost(AccountId("default"), self.clock, self._cursor, vault=self._vault)
        self._made.append(open_account(MatrixAccount.model_validate(settings), host))
        return self._made[-1]

    @property
    def plain(self) -> MatrixAdapter:
        """Returns an adapter as it is without the extra."""
        settings = {"homeserver": self.bot.url, "accessToken": self.bot.token, "pollSeconds": 2}
        host = ChannelHost(AccountId("default"), self.clock, self._cursor, vault=self._vault)
        api = MatrixApi(self.bot.url, self.bot.token)
        account = MatrixAccount.model_validate(settings)
        self._made.append(MatrixAdapter(account, host, api, NoCrypto()))
        return self._made[-1]

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        del name
        content = {"msgtype": "m.text", "body": text}
        return str(self.nio.ask("say", room=peer.id, content=content))

    def received(self) -> list[tuple[str, str]]:
        event: dict[str, Any] = {row["id"]: row for row in self.nio.ask("heard")}
        sent = [
            (room, row["event_id"])
            for room in self._rooms
            for row in self.nio.person.events(room, self.bot.id)
            if row["type"] == "m.room.encrypted"
        ]
        while any(event_id not in event for _, event_id in sent):
            event = {row["id"]: row for row in self.nio.ask("heard")}
        return [(room, texts([event[event_id]])[0]) for room, event_id in sent]

    def typed(self) -> list[str]:
        return [room for room in self._rooms if self.bot.id in self.nio.person.typing(room)]

    async def close(self) -> None:
        """Closes the connections of the adapters."""
        for adapter in self._made:
            await adapter.api.http.close()


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
async def test_the_adapter_keeps_the_contract_in_encrypted_rooms(
    url: str, nio: Nio, clause: Clause
) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    await clause(town)
    await town.close()


async def test_a_part_that_is_sent_twice_is_one_event_and_is_found(url: str, nio: Nio) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    whole = part(town.adapter, town.alice, "**hello**")
    first = await town.adapter.send(whole)
    assert await town.adapter.send(whole) == first
    assert town.received() == [(town.alice.id, "**hello**")]
    assert await town.adapter.locate(whole) == first
    assert await town.adapter.settle(whole) is Settlement.DELIVERED
    await town.adapter.edit(whole.to, first.platform_ids[0], "good bye")
    replaced = (await nio.read(town.alice.id, town.bot, 2))[1]
    assert replaced["content"]["m.new_content"]["body"] == "good bye"
    assert replaced["content"]["m.relates_to"]["event_id"] == first.platform_ids[0]
    all_is_encrypted(nio.person, town.alice.id, town.bot)
    await town.close()


async def test_a_reply_quotes_what_was_encrypted(url: str, nio: Nio) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    sent = await town.adapter.send(part(town.adapter, town.alice, "which boat?"))
    relation = {"m.in_reply_to": {"event_id": sent.platform_ids[0]}}
    await nio.say(town.alice.id, "the red one", **{"m.relates_to": relation})
    (message,) = await taken(town.adapter, 1)
    assert message.reply is not None
    assert (message.text, message.reply.text, message.reply.is_me) == (
        "the red one",
        "which boat?",
        True,
    )
    await town.close()


async def test_files_are_encrypted_both_ways(url: str, nio: Nio, tmp_path: Path) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    (tmp_path / "a.txt").write_text("words")
    media = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "a.txt"), "text/plain")
    plain = part(town.adapter, town.alice, "look")
    await town.adapter.send(replace(plain, additions=Additions(media=media)))
    (row,) = await nio.read(town.alice.id, town.bot, 1)
    assert texts([row]) == ["look"]
    assert "url" not in row["content"]
    assert await nio.do("fetch", file=row["content"]["file"]) == "words"
    await nio.do("upload", room=town.alice.id, text="a secret", name="s.txt")
    adapter = town.adapter
    (message,) = await taken(adapter, 1)
    (file,) = message.attachments
    assert (file.name, file.mime, file.size) == ("s.txt", "text/plain", 8)
    assert await adapter.fetch(file, 100) == b"a secret"
    await town.close()


async def test_who_left_gets_no_more_keys(url: str, nio: Nio, tmp_path: Path) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    with client(town.third, tmp_path / "third") as third:
        await town.adapter.send(part(town.adapter, town.team, "with you"))
        (event,) = await third.read(town.team.id, town.bot, 1)
        assert texts([event]) == ["with you"]
        await town.adapter.send(part(town.adapter, town.team, "still with you", 1))
        before = (await nio.read(town.team.id, town.bot, 2))[1]["session"]
        assert before == event["session"]
        await anyio.to_thread.run_sync(town.third.leave, town.team.id)
        await town.adapter.send(part(town.adapter, town.team, "without you", 2))
        after = (await nio.read(town.team.id, town.bot, 3))[2]
        assert texts([after]) == ["without you"]
        assert after["session"] != before
    await town.close()


async def test_a_device_that_is_new_gets_the_key_of_the_next_message(
    url: str, nio: Nio, tmp_path: Path
) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    adapter = town.adapter
    received: list[str] = []

    async def inbox(message: InboundMessage) -> None:
        received.append(message.text)
        await adapter.send(part(adapter, town.alice, f"answer {len(received)}", len(received)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        await nio.say(town.alice.id, "one")
        assert texts(await nio.read(town.alice.id, town.bot, 1)) == ["answer 1"]
        second = await anyio.to_thread.run_sync(nio.person.another_device)
        with client(second, tmp_path / "second") as phone:
            await nio.say(town.alice.id, "two")
            assert texts(await nio.read(town.alice.id, town.bot, 2))[1] == "answer 2"
            rows = await phone.read(town.alice.id, town.bot, 1)
            with anyio.fail_after(60):
                while not rows[-1]["decrypted"] or rows[-1]["content"]["body"] != "answer 2":
                    rows = await phone.read(town.alice.id, town.bot, 1)
        tasks.cancel_scope.cancel()
    await town.close()


async def test_a_person_whose_message_cannot_be_decrypted_is_told_once(url: str, nio: Nio) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    adapter = town.adapter
    no_key = {
        "algorithm": "m.megolm.v1.aes-sha2",
        "session_id": "nobodyhasthekeyofthissession",
        "ciphertext": "AwgA",
    }
    for _ in range(2):
        nio.person.send(town.alice.id, "m.room.encrypted", no_key)

    async def inbox(message: InboundMessage) -> None:
        assert message.text == "readable"
        town.clock.advance(GRACE_MS)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        await nio.say(town.alice.id, "readable")
        (payload,) = await nio.read(town.alice.id, town.bot, 1)
        with anyio.fail_after(60):
            while not adapter.state.message:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert payload["decrypted"]
    assert (payload["content"]["msgtype"], payload["content"]["body"]) == ("m.notice", NOTICE)
    assert adapter.state.message.startswith("2 encrypted messages could not be read")
    assert "/discardsession" in adapter.state.remedy
    await town.close()


async def test_without_the_extra_nothing_is_sent_and_the_remedy_is_told(
    url: str, nio: Nio, caplog: pytest.LogCaptureFixture
) -> None:
    town = SealedMatrix(url, nio)
    await town.begin()
    adapter = town.plain
    assert adapter.state.message == ""
    with pytest.raises(DeliveryRefusedError, match=r"pip install 'skerry\[matrix\]'"):
        await adapter.send(part(adapter, town.alice, "secret"))
    await nio.say(town.alice.id, "one")
    await nio.say(town.alice.id, "two")

    async def inbox(message: InboundMessage) -> None:
        raise AssertionError(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        with anyio.fail_after(60):
            while not adapter.state.message:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert "pip install 'skerry[matrix]'" in adapter.state.remedy
    assert adapter.state.state.value == "connected"
    logged = [
        message
        for message in caplog.messages
        if f"messages in {town.alice.id} are not read" in message
    ]
    assert len(logged) == 1
    kinds = {row["type"] for row in nio.person.events(town.alice.id, town.bot.id)}
    assert kinds == {"m.room.member"}
    await town.close()
