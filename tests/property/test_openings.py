"""Conversations through any order of messages, silences, nights, commands and starts.

Beside the store stands a model of keys, sessions and times. A seeded defect shows that the machine
would notice.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import integers, sampled_from
from msgspec.structs import replace

from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import UserMessage
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.sessions.session_choice import SessionLimits, enter, opening
from skerry.store import DATABASE, Reader, Store, Unit, archive, open_store, sessions
from tests.support.shown import examples, shown

MINUTE = 60_000
IDLE = 300
START = int(
    datetime.fromisoformat("2026-03-27 12:00").timestamp() * 1000
)  # near a change of clocks
NAMES = ("main", "telegram:direct:1")
WORDS = ("hello", "/new", "/new words", "/reset", "/resume", "/resume 2", "/news")


@dataclass
class SessionModel:
    """The expected state of one session."""

    name: str
    texts: list[str] = field(default_factory=list)
    spoke: int = 0
    archived_at: int = 0
    """0 while it is present."""


def expired(spoke: int, now: int) -> bool:
    """Returns the same as the rules say, by looking at every four o'clock there was."""
    if not spoke:
        return False
    if now > spoke + IDLE * MINUTE:
        return True
    four = datetime.fromtimestamp(spoke / 1000).astimezone().replace(tzinfo=None)
    four = four.replace(hour=4, minute=0, second=0, microsecond=0)
    while four.timestamp() * 1000 <= spoke:
        four += timedelta(days=1)
    return four.timestamp() * 1000 <= now


class Openings(RuleBasedStateMachine):
    """`enter` in the store beside a list of sessions."""

    everybody_counts: ClassVar[bool] = False
    """The defect: what the gateway does by itself keeps a session fresh too."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory(prefix="skerry-")
        self.now, self.count = START, 0
        self.known: dict[str, SessionModel] = {}
        self.open()

    def open(self) -> None:
        self.opened = AsyncExitStack()
        opening_ = open_store(Path(self.folder.name) / DATABASE)
        self.store: Store = self.runner.run(self.opened.enter_async_context(opening_))

    def present(self, name: str) -> str | None:
        found = [i for i, one in self.known.items() if one.name == name and not one.archived_at]
        assert len(found) <= 1
        return found[0] if found else None

    def earlier(self, name: str) -> list[str]:
        found = [
            i for i, one in self.known.items() if one.name == name and one.archived_at and one.spoke
        ]
        return sorted(found, key=lambda i: self.known[i].archived_at, reverse=True)

    @rule(minutes=sampled_from([1, 30, 299, 301, 700, 1440, 3000]))
    def wait(self, minutes: int) -> None:
        self.now += minutes * MINUTE

    @rule(name=sampled_from(NAMES), words=sampled_from(WORDS))
    def say(self, name: str, words: str) -> None:
        self.arrive(name, words, Purpose.MESSAGE)

    @rule(name=sampled_from(NAMES), purpose=sampled_from([Purpose.HEARTBEAT, Purpose.CRON]))
    def tick(self, name: str, purpose: Purpose) -> None:
        self.arrive(name, "hello", purpose)

    @rule(times=integers(1, 2))
    def restart(self, times: int) -> None:
        for _ in range(times):
            self.runner.run(self.opened.aclose())
            self.open()

    def arrive(self, name: str, words: str, purpose: Purpose) -> None:
        self.now += 1
        self.count += 1
        key, new_id = SessionKey.parse(name), SessionId(f"s{self.count}")
        request = RunRequest(
            RunId(f"r{self.count}"), key, words, origin=Origin.OWNER, purpose=purpose
        )
        request = opening(request, ("/new", "/reset"))
        bare = request.opening is not None and request.opening.bare
        text = f"{request.text} #{self.count}"
        is_turn = purpose is Purpose.MESSAGE and not bare
        limits = SessionLimits(4, IDLE) if is_turn else None
        counts = is_turn or (self.everybody_counts and purpose is not Purpose.MESSAGE)
        heard = self.now if counts else 0

        def work(unit: Unit) -> Any:
            opened_session = enter(unit, request, limits, new_id, self.now)
            message = UserMessage(replace(request, text=text).message(self.now).content, self.now)
            written = [*opened_session.notes, message]
            sessions.append(
                unit,
                opened_session.session_id,
                opened_session.tail,
                "r",
                written,
                self.now,
                person_wrote_at=heard,
            )
            return opened_session

        completed = self.runner.run(self.store.write(work))
        expected = self.expect(name, words if purpose is Purpose.MESSAGE else "", new_id, is_turn)
        assert completed.session_id == expected
        one = self.known[expected]
        one.texts.append(text)
        if is_turn:
            one.spoke = self.now

    def expect(self, name: str, words: str, new_id: str, is_turn: bool) -> str:  # noqa: FBT001 - of the model
        """Changes the model as the message does; returns the session that it enters."""
        now = self.present(name)
        if words.startswith("/resume"):
            earlier = self.earlier(name)
            position = 1 if words.endswith("2") else 0
            if position < len(earlier):
                self.put_away(now)
                self.known[earlier[position]].archived_at = 0
                self.known[earlier[position]].spoke = self.now
                return earlier[position]
        elif now and words.partition(" ")[0] in {"/new", "/reset"}:
            if self.known[now].texts:
                self.put_away(now)
                now = None
        elif now and is_turn and expired(self.known[now].spoke, self.now):
            self.put_away(now)
            now = None
        if now is None:
            self.known[new_id] = SessionModel(name)
        return now or new_id

    def put_away(self, session_id: str | None) -> None:
        if session_id is not None:
            self.known[session_id].archived_at = self.now

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        self.runner.run(self.store.read(self.check))

    def check(self, reader: Reader) -> None:
        rows = reader.all("SELECT session_id, key, current FROM session")
        assert {row[0] for row in rows} == self.known.keys()
        for session_id, key, current in rows:
            one = self.known[session_id]
            assert (key, bool(current)) == (str(SessionKey.parse(one.name)), not one.archived_at)
            entries = sessions.entries(reader, session_id, limit=-1)
            texts = [e.message.text for e in entries if isinstance(e.message, UserMessage)]
            assert texts == one.texts
        for name in NAMES:
            found = archive.earlier(reader, str(SessionKey.parse(name)), 100)
            assert [session.session_id for session in found] == self.earlier(name)

    def teardown(self) -> None:
        self.runner.run(self.opened.aclose())
        self.runner.close()
        self.folder.cleanup()


class Defective(Openings):
    """The same with the defect planted."""

    everybody_counts = True


TestOpenings = Openings.TestCase
TestOpenings.settings = settings(max_examples=examples(30), stateful_step_count=30, deadline=None)


def test_the_machine_notices_a_defect() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Defective, settings=shown(TestOpenings.settings))
