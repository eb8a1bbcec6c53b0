"""The session map, the folders of the agents, and a mirror whose mark cannot be stored."""

import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import Usage
from skerry.store import Store, Unit, open_store, sessions
from skerry.store.mirror import Mirror

AT = 1_700_000_000_123


class MirrorRig:
    """A database, its mirror, and messages of a person."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mirror = Mirror(home / "agents", Path("/w"))
        self.full = False
        self.store: Store

    def reach(self, point: str) -> None:
        if self.full and point == "store.before-commit":
            raise sqlite3.OperationalError("database or disk is full")

    async def say(self, *texts: str, key: str = "main") -> None:
        def work(unit: Unit) -> None:
            parsed = SessionKey.parse(key)
            new_id = parsed.agent if parsed.scope == ("main",) else parsed.scope[-1]
            session_id, tail = sessions.ensure(unit, parsed, SessionId(f"id-{new_id}"), AT)
            messages = [message.user(text, AT) for text in texts]
            sessions.append(unit, session_id, tail, "r", messages, AT)

        await self.store.write(work)

    def transcript(self, agent: str = "main") -> list[dict[str, Any]]:
        path = self.home / "agents" / agent / "sessions" / f"id-{agent}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def texts(self) -> list[str]:
        return [line["message"]["content"][0]["text"] for line in self.transcript()[1:]]

    def index(self, agent: str = "main") -> dict[str, dict[str, Any]]:
        session_map: dict[str, dict[str, Any]] = json.loads(
            (self.home / "agents" / agent / "sessions" / "sessions.json").read_text()
        )
        return session_map


@asynccontextmanager
async def opened(home: Path) -> AsyncGenerator[MirrorRig]:
    rig = MirrorRig(home)
    async with open_store(
        home / "s.sqlite", on_commit=rig.mirror.touched.add, reach=rig.reach
    ) as rig.store:
        await rig.mirror.repair(rig.store)
        yield rig


@pytest.mark.requirement("session-store-file")
@pytest.mark.requirement("session-entry-fields")
async def test_the_map_has_what_is_known_of_each_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.say("hi")
        await rig.say("hi", key="agent:main:telegram:group:7")
        await rig.store.write(
            lambda unit: sessions.note_run(
                unit, SessionId("id-main"), Usage(3, 2, 0, 0, 9), "p", "m", aborted=True
            )
        )
        await rig.mirror.flush(rig.store)
        assert rig.index()["agent:main:telegram:group:7"]["chatType"] == "group"
        assert rig.index()["agent:main:main"] == {
            "sessionId": "id-main",
            "updatedAt": AT,
            "sessionFile": "id-main.jsonl",
            "chatType": "direct",
            "inputTokens": 3,
            "outputTokens": 2,
            "totalTokens": 9,
            "abortedLastRun": True,
            "modelProvider": "p",
            "model": "m",
        }


@pytest.mark.requirement("session-store-per-agent")
async def test_every_agent_has_a_folder_of_its_own_for_the_owner_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.say("hi")
        await rig.say("hi", key="agent:work:main")
        await rig.mirror.flush(rig.store)
        assert list(rig.index("work")) == ["agent:work:main"]
        assert list(rig.index()) == ["agent:main:main"]
        files = [path for path in (tmp_path / "agents").rglob("*") if path.is_file()]
        assert len(files) == 4
        for agent in ("main", "work"):
            assert len(list((tmp_path / "agents" / agent / "sessions").glob("*.jsonl"))) == 1
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert (tmp_path / "agents" / "work").stat().st_mode & 0o777 == 0o700


async def test_a_full_disk_delays_the_mirror_and_loses_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.say("one")
        rig.full = True  # its own mark cannot be stored
        await rig.mirror.flush(rig.store)
        rig.full = False
        await rig.say("two")
        await rig.mirror.flush(rig.store)
        assert rig.texts() == ["one", "two"]
