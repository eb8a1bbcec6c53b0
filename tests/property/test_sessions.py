"""Conversations through any order of messages, resets, deletions, restores, names and starts."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import data, integers, sampled_from

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.store import (
    DATABASE,
    Reader,
    Store,
    Unit,
    archive,
    open_store,
    session_listing,
    sessions,
)
from skerry.store.mirror import Mirror, transcript_file
from skerry.store.session_listing import SessionFilter
from tests.support.shown import examples, shown

NAMES = ("alice", "bob")


@dataclass
class SessionModel:
    """The expected state of one session."""

    name: str
    texts: list[str] = field(default_factory=list)
    label: str = ""


class Conversations(RuleBasedStateMachine):
    """The store and its mirror beside two dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory(prefix="skerry-")
        self.home = Path(self.folder.name)
        self.opened = AsyncExitStack()
        self.mirror = Mirror(self.home / "agents", Path("/w"))
        opening = open_store(self.home / DATABASE, on_commit=self.touch)
        self.store: Store = self.runner.run(self.opened.enter_async_context(opening))
        self.known: dict[str, SessionModel] = {}
        self.present: dict[str, str] = {}
        self.now = 1

    def touch(self, session_ids: list[str]) -> None:
        self.mirror.touched.add(session_ids)

    def write(self, work: Any) -> Any:
        self.now += 1
        return self.runner.run(self.store.write(work))

    def key(self, name: str) -> SessionKey:
        return SessionKey.parse(f"agent:main:{name}")

    @rule(name=sampled_from(NAMES), count=integers(1, 3))
    def say(self, name: str, count: int) -> None:
        new_id = SessionId(f"s{len(self.known)}")
        texts = [f"{self.now}.{number}" for number in range(count)]

        def work(unit: Unit) -> str:
            session_id, tail = sessions.ensure(unit, self.key(name), new_id, self.now)
            messages = [message.user(text, self.now) for text in texts]
            sessions.append(unit, session_id, tail, "r", messages, self.now)
            return session_id

        session_id = self.write(work)
        assert session_id == self.present.get(name, new_id)
        self.present[name] = session_id
        self.known.setdefault(session_id, SessionModel(name)).texts += texts

    @rule(name=sampled_from(NAMES))
    def reset(self, name: str) -> None:
        new_id = SessionId(f"s{len(self.known)}")
        old = self.write(lambda unit: archive.reset(unit, self.key(name), new_id, self.now))
        assert (old and old.session_id) == self.present.get(name)
        label = self.known[old.session_id].label if old else ""
        self.present[name] = new_id
        self.known[new_id] = SessionModel(name, label=label)

    @rule(name=sampled_from(NAMES))
    def delete(self, name: str) -> None:
        old = self.write(lambda unit: archive.delete(unit, self.key(name), self.now))
        assert (old and old.session_id) == self.present.pop(name, None)

    @precondition(lambda self: self.known.keys() - self.present.values())
    @rule(choice=data())
    def restore(self, choice: Any) -> None:
        archived = sorted(self.known.keys() - self.present.values())
        session_id = choice.draw(sampled_from(archived))
        name = self.known[session_id].name

        def work(unit: Unit) -> Any:
            session = sessions.get(unit, session_id)
            assert session is not None
            return archive.restore(unit, session, self.now)

        displaced = self.write(work)
        assert (displaced and displaced.session_id) == self.present.get(name)
        self.present[name] = session_id

    @precondition(lambda self: self.present)
    @rule(choice=data(), label=sampled_from(["", "one", "two"]))
    def name_it(self, choice: Any, label: str) -> None:
        session_id = choice.draw(sampled_from(sorted(self.present.values())))

        def work(unit: Unit) -> None:
            own = sessions.settings(unit, session_id)
            archive.change(unit, session_id, label=label, settings=own)

        self.write(work)
        self.known[session_id].label = label

    @rule()
    def append(self) -> None:
        self.runner.run(self.mirror.flush(self.store))

    @rule()
    def start(self) -> None:
        self.mirror = Mirror(self.home / "agents", Path("/w"))  # a crash forgets the old
        self.runner.run(self.mirror.repair(self.store))
        self.runner.run(self.store.read(self.check_files))

    def check_files(self, reader: Reader) -> None:
        expected = {}
        for session in session_listing.recent(reader, SessionFilter(archived=None), limit=-1):
            if session.tail:
                expected[transcript_file(self.home / "agents", session)] = session.session_id
        folder = self.home / "agents" / "main" / "sessions"
        assert set(folder.glob("*.jsonl*")) == expected.keys()
        for file, session_id in expected.items():
            _, *lines = file.read_bytes().splitlines()
            decoded = [msgspec.json.decode(line) for line in lines]
            texts = [line["message"]["content"][0]["text"] for line in decoded]
            assert texts == self.known[session_id].texts

    @invariant()
    def the_store_agrees(self) -> None:
        self.runner.run(self.store.read(self.check))

    def check(self, reader: Reader) -> None:
        found = {session.key: session for session in session_listing.recent(reader, limit=-1)}
        ids = {key: session.session_id for key, session in found.items()}
        assert ids == {str(self.key(name)): one for name, one in self.present.items()}
        for session_id, said in self.known.items():
            session = sessions.get(reader, session_id)
            assert session is not None
            assert (session.label, session.tail) == (said.label, len(said.texts))
            assert (session.archived is None) == (session_id in self.present.values())
            entries = sessions.entries(reader, session_id, limit=-1)
            assert [sessions.text_of(entry.message) for entry in entries] == said.texts

    def teardown(self) -> None:
        self.start()
        self.runner.run(self.opened.aclose())
        self.runner.close()
        self.folder.cleanup()


RUNS = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
TestConversations = Conversations.TestCase
TestConversations.settings = RUNS


def test_a_reset_that_forgets_the_old_conversation_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The seeded defect: the machine can fail."""
    monkeypatch.setattr(archive, "reset", lambda *given: archive.delete(given[0], given[1], 1))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Conversations, settings=shown(RUNS))
