"""The mirror's files through any order of commits, appends, crashes and damage."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.strategies import integers, sampled_from

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Store, Unit, open_store, sessions
from skerry.store.mirror import Mirror
from tests.support.shown import examples

NAMES = ("alice", "bob")


class MirrorFiles(RuleBasedStateMachine):
    """A gateway's life as its mirror sees it; a start must make every file whole."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory(prefix="skerry-")
        self.home = Path(self.folder.name)
        self.opened = AsyncExitStack()
        self.store: Store = self.run(self.open())
        self.written: dict[str, int] = dict.fromkeys(NAMES, 0)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    async def open(self) -> Store:
        self.mirror = Mirror(self.home / "agents", Path("/workspace"))
        path = self.home / "state.sqlite"
        opening = open_store(path, on_commit=self.touch)
        return await self.opened.enter_async_context(opening)

    def touch(self, session_ids: list[str]) -> None:
        self.mirror.touched.add(session_ids)  # the present one: a start makes another

    def file(self, name: str) -> Path:
        return self.home / "agents" / "main" / "sessions" / f"{name}.jsonl"

    @rule(name=sampled_from(NAMES), count=integers(1, 3))
    def commit(self, name: str, count: int) -> None:
        def say(unit: Unit) -> None:
            key = SessionKey.parse(f"agent:main:memory:direct:{name}")
            session_id, tail = sessions.ensure(unit, key, SessionId(name), 1)
            messages = [
                message.user(f"{name} {tail + number}", 1) for number in range(1, count + 1)
            ]
            sessions.append(unit, session_id, tail, "run", messages, 1)

        self.run(self.store.write(say))
        self.written[name] += count

    @rule()
    def append(self) -> None:
        self.run(self.mirror._append(self.store))

    @rule()
    def append_and_mark(self) -> None:
        self.run(self.mirror.flush(self.store))

    @precondition(lambda self: any(self.file(name).exists() for name in NAMES))
    @rule(name=sampled_from(NAMES), lost=integers(0, 200))
    def lose_the_end(self, name: str, lost: int) -> None:
        if self.file(name).exists():
            data = self.file(name).read_bytes()
            self.file(name).write_bytes(data[: max(0, len(data) - lost)])
            self.start()  # what was lost while nobody looked, a start finds

    @rule(name=sampled_from(NAMES))
    def half_a_line_too_much(self, name: str) -> None:
        if self.file(name).exists():
            with self.file(name).open("ab") as file:
                file.write(b'{"type":"mess')
            self.start()

    @rule()
    def start(self) -> None:
        self.mirror = Mirror(self.home / "agents", Path("/workspace"))  # a crash forgets the old
        self.run(self.mirror.repair(self.store))
        for name in NAMES:
            assert self.texts(name) == [
                f"{name} {number}" for number in range(1, self.written[name] + 1)
            ]

    def texts(self, name: str) -> list[str]:
        if not self.file(name).exists():
            return []
        _, *lines = self.file(name).read_bytes().splitlines()
        decoded = [msgspec.json.decode(line) for line in lines]
        return [line["message"]["content"][0]["text"] for line in decoded]

    def teardown(self) -> None:
        self.start()
        self.run(self.opened.aclose())
        self.runner.close()
        self.folder.cleanup()


TestMirrorFiles = MirrorFiles.TestCase
TestMirrorFiles.settings = settings(
    max_examples=examples(20), stateful_step_count=15, deadline=None
)
