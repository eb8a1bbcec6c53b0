"""A database of every older version opens, and its conversation goes on where it was."""

from pathlib import Path

import pytest

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage, UserMessage
from skerry.store import open_store, runs, sessions
from skerry.store.schema import STEPS
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import MAIN, open_core

NOW = FakeClock().now_ms()
ANSWER = AssistantMessage((TextBlock("a blue boat"),), "a", "p", "m", Usage(), "stop", NOW - 1)


def older(path: Path, version: int) -> None:
    """Write a database as that version would have: a conversation that ended a minute ago."""
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:version])
    at = NOW - 60_000
    connection.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, tail)"
        " VALUES ('old', ?, 'main', 'direct', ?, ?, 2)",
        (str(MAIN), at, at),
    )
    said: tuple[Message, ...] = (message.user("what did I see?", at), ANSWER)
    for seq, one in enumerate(said, 1):
        connection.execute(
            "INSERT INTO entry (session_id, seq, parent, at, run_id, body)"
            " VALUES ('old', ?, ?, ?, 'r0', ?)",
            (seq, seq - 1, at, message.encode(one)),
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
        seen = [one.text for one in model.seen[-1].messages if isinstance(one, UserMessage)]
        assert seen == ["what did I see?", "and then?"]
        assert [type(one).__name__ for one in await core.said()] == [
            "UserMessage",
            "AssistantMessage",
        ] * 2
        assert await core.store.read(runs.unfinished) == []


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
