"""Salvage of a damaged database accepts only rows with a readable message."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skerry.model.ids import AgentId, RunId, SessionId, SessionKey
from skerry.model.message import user
from skerry.store import Unit, open_store, sessions
from skerry.store.salvage import salvage

MAIN = SessionKey.parse("agent:main:main", AgentId("main"))


@pytest.mark.parametrize(
    "body",
    [
        b"\0",
        b'{"role":"user","content":[{"type":"text","text":"\xff"}],"timestamp":1}',
        b'{"a":' * 9999,
    ],
)
async def test_a_message_that_cannot_be_read_does_not_keep_the_others_back(
    tmp_path: Path, body: bytes
) -> None:
    damaged, sound = tmp_path / "damaged.sqlite", tmp_path / "sound.sqlite"
    async with open_store(sound):
        pass
    async with open_store(damaged) as store:

        def say(unit: Unit) -> None:
            session, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            sessions.append(unit, session, tail, RunId("r"), [user(text, 1) for text in "abc"], 1)

        await store.write(say)
    with closing(sqlite3.connect(damaged, isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET body = ? WHERE seq = 2", (body,))
    tables = {table.name: (table.salvaged, table.is_complete) for table in salvage(damaged, sound)}
    assert tables["entry"] == (2, False)
