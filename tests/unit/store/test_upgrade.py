"""A database of every older version opens, and its conversation continues."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage, UserMessage
from skerry.model.origin import Origin
from skerry.store import inbound, open_store, runs, sessions
from skerry.store.state_schema import STEPS
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import MAIN, open_core, request

NOW = FakeClock().now_ms()
BEFORE_ORIGINS = 3
"""The last version whose messages have no origin."""
ANSWER = AssistantMessage((TextBlock("a blue boat"),), "a", "p", "m", Usage(), "stop", NOW - 1)


def said_by(origin: Origin, text: str, at: int) -> UserMessage:
    """Returns a message of a person; the origin of a stranger is not stored."""
    return UserMessage((TextBlock(text),), at, origin)


def older(path: Path, version: int) -> None:
    """Writes a database of that version, with a conversation that ended a minute ago."""
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:version])
    at = NOW - 60_000
    connection.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, tail)"
        " VALUES ('old', ?, 'main', 'direct', ?, ?, 2)",
        (str(MAIN), at, at),
    )
    origin = Origin.OWNER if version > BEFORE_ORIGINS else Origin.STRANGER
    messages: tuple[Message, ...] = (said_by(origin, "what did I see?", at), ANSWER)
    for seq, entry_message in enumerate(messages, 1):
        connection.execute(
            "INSERT INTO entry (session_id, seq, parent, at, run_id, body)"
            " VALUES ('old', ?, ?, ?, 'r0', ?)",
            (seq, seq - 1, at, message.encode(entry_message)),
        )
    connection.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at)"
        " VALUES ('empty', 'agent:main:empty', 'main', 'direct', ?, ?)",
        (at, at),
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("version", range(1, len(STEPS) + 1))
async def test_a_conversation_survives_an_upgrade_from_every_version(
    tmp_path: Path, version: int
) -> None:
    older(tmp_path / "state.sqlite", version)
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model, clock=FakeClock()) as core:
        result = await core.ask("and then?")
        assert result.session_id == "old"
        texts = [
            entry_message.text
            for entry_message in model.requests[-1].messages
            if isinstance(entry_message, UserMessage)
        ]
        assert texts == ["what did I see?", "and then?"]
        assert [type(entry_message).__name__ for entry_message in await core.transcript()] == [
            "UserMessage",
            "AssistantMessage",
        ] * 2
        assert await core.store.read(runs.unfinished) == []


STAMPED = next(number for number, step in enumerate(STEPS) if "'$.origin', 'owner'" in step)


@pytest.mark.parametrize(
    ("key", "run_id", "at", "origin"),
    [
        ("agent:main:main", "r1", 0, Origin.OWNER),
        ("agent:main:main", "of-a-platform", 0, Origin.STRANGER),
        ("agent:main:main", "r1", 2, Origin.STRANGER),
        ("agent:main:telegram:direct:main", "r1", 0, Origin.STRANGER),
        ("agent:main:telegram:group:main", "r1", 0, Origin.STRANGER),
        ("agent:main:other", "r1", 0, Origin.STRANGER),
    ],
)
async def test_only_what_the_owner_wrote_before_origins_becomes_the_owners(
    tmp_path: Path, key: str, run_id: str, at: int, origin: Origin
) -> None:
    path = tmp_path / "state.sqlite"
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:STAMPED])
    entry = (
        "INSERT INTO entry (session_id, seq, parent, at, run_id, body) VALUES (?, ?, 0, ?, ?, ?)"
    )
    for name, of_key in (("s1", key), ("s2", "agent:main:second")):
        connection.execute(
            "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at,"
            " tail) VALUES (?, ?, 'main', 'direct', 0, 0, 1)",
            (name, of_key),
        )
    encoded = message.encode(said_by(Origin.OWNER, "hi", 1))
    connection.execute(entry, ("s2", 1, 1, "r2", encoded))
    text = 'Ça va? {"origin": 1}'
    connection.execute(
        entry, ("s1", 1, at, run_id, message.encode(said_by(Origin.STRANGER, text, at)))
    )
    connection.execute(entry, ("s1", 2, 0, "r1", b"no JSON"))
    connection.execute(
        "INSERT INTO inbound (channel, account, peer, thread, message_id, run_id, received_at)"
        " VALUES ('c', 'a', 'p', '', 'm', 'of-a-platform', 0)"
    )
    connection.commit()
    connection.close()
    async with open_store(path) as store:
        (first,) = await store.read(lambda r: sessions.entries(r, "s1", limit=1, before=2))
        assert first.message == said_by(origin, text, at)
        broken = await store.read(lambda r: r.one("SELECT body FROM entry WHERE seq = 2"))
        assert broken == (b"no JSON",)


BEFORE_USER_AT = next(number for number, step in enumerate(STEPS) if "user_at" in step)


@pytest.mark.parametrize("version", range(1, BEFORE_USER_AT + 1))
async def test_an_older_session_counts_as_used_when_it_was(tmp_path: Path, version: int) -> None:
    older(tmp_path / "state.sqlite", version)
    async with open_store(tmp_path / "state.sqlite") as store:
        old = await store.read(lambda reader: sessions.get(reader, "old"))
        empty = await store.read(lambda reader: sessions.get(reader, "empty"))
        assert old is not None
        assert empty is not None
        assert (old.user_at, empty.user_at) == (old.updated_at, 0)


async def test_a_message_that_was_taken_before_the_upgrade_is_known_after_it(
    tmp_path: Path,
) -> None:
    by_account = next(n for n, step in enumerate(STEPS) if "inbound_of_accounts" in step)
    path = tmp_path / "state.sqlite"
    older(path, by_account)
    peer = Peer(PeerKind.DIRECT, "alice")
    to = ReplyTo(ChannelId("memory"), AccountId("default"), peer, "m1", "t1")
    connection = sqlite.connect(path)
    connection.execute(
        "INSERT INTO run (run_id, session_key, session_id, request, accepted_at)"
        " VALUES ('r1', ?, 'old', ?, 0)",
        (str(MAIN), msgspec.json.encode(replace(request("hi"), reply_to=to))),
    )
    connection.execute("INSERT INTO inbound VALUES ('memory', 'default', 'm1', 'r1', 0)")
    connection.execute("INSERT INTO inbound VALUES ('memory', 'default', 'gone', 'r0', 0)")
    connection.commit()
    connection.close()
    repeated = InboundMessage(to.channel, to.account, peer, "alice", "hi", "m1", 0, "t1")
    async with open_store(path) as store:
        take = inbound.take
        assert await store.write(lambda unit: take(unit, repeated, RunId("r2"))) == "r1"
        bobs = replace(repeated, peer=Peer(PeerKind.DIRECT, "bob"))
        assert await store.write(lambda unit: take(unit, bobs, RunId("r3"))) is None
        run_ids = await store.read(lambda reader: reader.all("SELECT run_id FROM inbound"))
        assert sorted(run_ids) == [("r0",), ("r1",), ("r3",)]
