"""Sessions that are archived, restored and changed; their files; the migration to archives."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import Archived, SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.store import DATABASE, Store, Unit, archive, open_store, session_listing, sessions
from skerry.store.mirror import Mirror
from skerry.store.session_listing import SessionFilter
from skerry.store.state_schema import STEPS

CHAT = SessionKey.parse("agent:main:chat")


def say(unit: Unit, *texts: str, new_id: str = "s1", now: int = 1) -> int:
    session_id, tail = sessions.ensure(unit, CHAT, SessionId(new_id), now)
    return sessions.append(unit, session_id, tail, "r", [message.user(t, now) for t in texts], now)


async def present(store: Store) -> str | None:
    session = await store.read(lambda reader: sessions.find(reader, str(CHAT)))
    return session.session_id if session else None


async def test_a_reset_keeps_label_and_levels_and_drops_the_model(tmp_path: Path) -> None:
    settings = SessionSettings(model="a/b", thinking_level=ThinkingLevel.HIGH, send_policy="deny")
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(partial(say))
        await store.write(lambda unit: archive.change(unit, "s1", label="x", settings=settings))
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5))
        new = await store.read(lambda reader: sessions.get(reader, "s2"))
        old = await store.read(lambda reader: sessions.get(reader, "s1"))
    assert new is not None
    assert old is not None
    kept_settings = SessionSettings(thinking_level=ThinkingLevel.HIGH, send_policy="deny")
    assert (new.label, new.settings, new.tail, new.archived) == ("x", kept_settings, 0, None)
    assert (old.archived, old.archived_at, old.settings) == (Archived.RESET, 5, settings)


async def test_a_restore_takes_the_place_of_the_present_one(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(partial(say))
        await store.write(lambda unit: archive.delete(unit, CHAT, 5))
        assert await present(store) is None
        await store.write(lambda unit: say(unit, "two", new_id="s2"))
        old = await store.read(lambda reader: sessions.get(reader, "s1"))
        assert old is not None
        displaced = await store.write(lambda unit: archive.restore(unit, old, 9))
        assert displaced is not None
        assert (displaced.session_id, displaced.archived_at) == ("s2", 9)
        assert await present(store) == "s1"
        restored = await store.read(lambda reader: sessions.get(reader, "s1"))
        assert restored is not None
        assert (restored.archived, restored.archived_at) == (None, 0)


async def test_archived_sessions_are_listed_apart(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: say(unit, "one"))
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5))
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s3"), 6))

        async def ids(*, archived: bool | None) -> list[str]:
            session_filter = SessionFilter(archived=archived)
            listed = await store.read(
                lambda reader: session_listing.recent(reader, session_filter, limit=-1)
            )
            assert await store.read(
                lambda reader: session_listing.count(reader, session_filter)
            ) == len(listed)
            return sorted(session.session_id for session in listed)

        assert await ids(archived=False) == ["s3"]
        assert await ids(archived=True) == ["s1"]  # s2 has no entries
        assert await ids(archived=None) == ["s1", "s3"]


# The schema before labels and archives


async def test_a_database_of_the_first_step_keeps_all_its_rows(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:1])
    connection.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, tail,"
        " input_tokens, provider, model)"
        " VALUES ('s1', 'agent:main:chat', 'main', 'direct', 1, 2, 1, 7, 'p', 'm')"
    )
    body = message.encode(message.user("old words", 1))
    connection.execute("INSERT INTO entry VALUES ('s1', 1, 0, 1, 'r', ?)", (body,))
    connection.execute("INSERT INTO mirror VALUES ('s1', 1, 100)")
    connection.close()
    async with open_store(path) as store:
        session = await store.read(lambda reader: sessions.find(reader, str(CHAT)))
        assert session is not None
        assert (session.session_id, session.tail, session.input_tokens, session.model) == (
            "s1",
            1,
            7,
            "m",
        )
        assert (session.label, session.archived, session.settings) == ("", None, SessionSettings())
        assert await store.read(lambda reader: sessions.title(reader, "s1")) == "old words"
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5))
        assert await present(store) == "s2"
    with sqlite3.connect(tmp_path / f"{DATABASE}.v1.bak") as backup:
        assert backup.execute("SELECT session_id FROM session").fetchall() == [("s1",)]
    backup.close()


# The files


class Files:
    """A home whose mirror a test can crash."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "agents" / "main" / "sessions"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.jsonl*"))

    def texts(self, name: str) -> list[str]:
        _, *lines = (self.folder / name).read_bytes().splitlines()
        decoded: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
        return [line["message"]["content"][0]["text"] for line in decoded]

    async def start(self, store: Store, reach: Callable[[str], None] = lambda _: None) -> None:
        await Mirror(self.home / "agents", Path("/w"), reach).repair(store)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


ARCHIVED = "s1.jsonl.reset.1970-01-01T00-00-05.000Z"


async def test_the_file_of_an_archived_session_says_why_and_when(files: Files) -> None:
    async with open_store(files.home / DATABASE) as store:
        await store.write(lambda unit: say(unit, "one"))
        await files.start(store)
        assert files.names() == ["s1.jsonl"]
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5_000))
        await files.start(store)
        assert files.names() == [ARCHIVED]
        await store.write(lambda unit: say(unit, "two"))
        await files.start(store)
        assert files.names() == [ARCHIVED, "s2.jsonl"]
        old = await store.read(lambda reader: sessions.get(reader, "s1"))
        assert old is not None
        await store.write(lambda unit: archive.restore(unit, old, 7_000))
        await files.start(store)
        assert files.names() == ["s1.jsonl", "s2.jsonl.reset.1970-01-01T00-00-07.000Z"]
        assert files.texts("s1.jsonl") == ["one"]


async def test_a_session_that_was_archived_before_its_file_was_whole_is_written_whole(
    files: Files,
) -> None:
    async with open_store(files.home / DATABASE) as store:
        await store.write(lambda unit: say(unit, "one"))
        await files.start(store)
        await store.write(lambda unit: say(unit, "two"))
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5_000))
        await files.start(store)
    assert files.names() == [ARCHIVED]
    assert files.texts(ARCHIVED) == ["one", "two"]


@pytest.mark.parametrize("point", ["mirror.before-rename", "mirror.after-rename"])
async def test_a_crash_beside_the_rename_is_repaired(files: Files, point: str) -> None:
    class CrashError(Exception):
        pass

    def crash(reached: str) -> None:
        if reached == point:
            raise CrashError

    async with open_store(files.home / DATABASE) as store:
        await store.write(lambda unit: say(unit, "one"))
        await files.start(store)
        await store.write(lambda unit: archive.reset(unit, CHAT, SessionId("s2"), 5_000))
        with pytest.raises(CrashError):
            await files.start(store, crash)
        await files.start(store)
    assert files.names() == [ARCHIVED]
    assert files.texts(ARCHIVED) == ["one"]


async def test_the_session_map_has_labels_and_overrides(files: Files) -> None:
    settings = SessionSettings(model="prov/name", thinking_level=ThinkingLevel.LOW)
    async with open_store(files.home / DATABASE) as store:
        await store.write(lambda unit: say(unit, "one"))
        await store.write(lambda unit: archive.change(unit, "s1", label="x", settings=settings))
        await files.start(store)
    session_map = msgspec.json.decode((files.folder / "sessions.json").read_bytes())
    entry = session_map["agent:main:chat"]
    assert (entry["label"], entry["thinkingLevel"]) == ("x", "low")
    assert (entry["providerOverride"], entry["modelOverride"]) == ("prov", "name")
