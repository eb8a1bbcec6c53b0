"""Twenty-four hours of traffic on a clock that the test moves: nothing is lost, nothing grows."""

import gc
import logging
import re
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Self

import anyio
import msgspec
import pytest

from skerry.app.boot import boot
from skerry.app.build import Application, Outside, open_application
from skerry.app.maintenance import Upkeep
from skerry.app.settings import Settings
from skerry.config.load import prepare
from skerry.features.retention.service import look
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt
from skerry.ports.channel import Inbox
from skerry.store import DATABASE, backups, open_store, session_listing
from skerry.store.session_listing import SessionFilter
from skerry.testing.channel import ACCOUNT, CHANNEL, OPEN, FakePlatform, MemoryChannel
from skerry.testing.clock import FakeClock
from skerry.testing.model_server import StubModelServer
from skerry_recall.terms import FormCache
from tests.support.mix import ENDED, Mind, config

QUARTER_MS: Final = 900_000
QUARTERS_A_DAY: Final = 96
WARM: Final = 32
"""Quarters after which every cache has seen what it will hold."""
OUTAGE: Final = range(20, 28)
"""Quarters in which the first model refuses everybody."""
LEAK: Final = 250
"""Bytes a message that a day may add: less than any run, reply or history that is kept.

Within a day the histories of open conversations grow by 2 to 3 KB a message, until the reset at
04:00 lets them go; so the looks are a whole day apart. Of two days the first added 134 bytes a
message and the second 68: mostly timers that asyncio keeps for a moment after they were cancelled.
"""
PEERS: Final = ("ann", "ben", "cat", "dan")


@dataclass(slots=True)
class Telephone(MemoryChannel):
    """A platform that keeps the answers only until they are read."""

    sent: list[str] = field(default_factory=list)
    heard: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, inbox: Inbox) -> None:
        """Hands in nothing: the test does."""
        del inbox
        await anyio.sleep_forever()

    async def send(self, part: OutboundPart) -> Receipt:
        """Takes a part."""
        self.sent.append(part.text)
        self.heard.set()
        return Receipt((part.nonce,))

    async def typing(self, to: ReplyTo) -> None:
        """Shows nothing."""

    async def said(self, name: str) -> int:
        """Waits for the answer to `name`, or the word that there is none; returns how many came."""
        with anyio.fail_after(60):
            while True:
                whole = " ".join(" ".join(self.sent).split())
                ends = [text for text in ENDED.findall(whole) if text == name]
                told = whole.count("⚠️ I could not answer")
                if ends or told:
                    self.sent.clear()
                    return len(ends) + told
                self.heard = anyio.Event()
                await self.heard.wait()


@dataclass(slots=True)
class Day:
    """The events of a day."""

    home: Path
    base_url: str
    clock: FakeClock = field(default_factory=FakeClock)
    phone: Telephone = field(init=False)
    dice: Random = field(default_factory=lambda: Random(20260207))  # noqa: S311 - always the same
    asked: int = 0

    def __post_init__(self) -> None:
        """Gives the telephone a folder beside ours: a test leaves nothing in the checkout."""
        self.phone = Telephone(FakePlatform(self.home.with_name("platform")))

    def settings(self) -> Settings:
        """Writes the configuration at the first start, and reads it."""
        environ = {"HOME": str(self.home), "SKERRY_STATE_DIR": str(self.home)}
        path = self.home / "skerry.json"
        if not path.exists():
            self.home.mkdir(mode=0o700)
            path.touch(mode=0o600)
            hooks: dict[str, Any] = {"internal": {"enabled": True}}
            path.write_bytes(msgspec.json.encode(config(self.base_url) | {"hooks": hooks}))
        return Settings(prepare(environ), environ)

    @asynccontextmanager
    async def gateway(self) -> AsyncGenerator[Application]:
        """Opens the real application on the test's clock, and starts it."""
        settings = self.settings()
        outside = Outside(adapters=[self.phone], unnamed_channels=OPEN, clock=self.clock)
        async with open_application(settings, settings.environ, outside) as application:
            workspace = settings.config.workspace(settings.config.agents.default_id)
            (workspace / "BOOT.md").write_text("Say please m0 to yourself.")
            runs = await boot(application.dispatch, settings.config, self.clock.now_ms())
            for run_id in runs:
                await application.dispatch.wait(run_id, 60)
            yield application

    async def quarter(self, application: Application) -> None:
        """Lets a quarter of an hour pass: people write, and the gateway looks after its state."""
        self.clock.advance(QUARTER_MS)
        for peer in PEERS:
            self.asked += 1
            name = f"m{self.asked}"
            word = self.dice.choice(("please", "please", "look"))
            await application.dispatch.receive(self.message(f"{word} {name}", peer, name))
            assert await self.phone.said(name) == 1
        context = application.context
        await Upkeep(context.store, self.home, self.clock).do_due()
        await look(context.store, context.config(), self.clock.now_ms(), context.hooks)

    def message(self, text: str, peer: str, name: str) -> InboundMessage:
        """Returns the messages of a person."""
        whom = Peer(PeerKind.DIRECT, peer)
        return InboundMessage(
            channel=CHANNEL,
            account=ACCOUNT,
            peer=whom,
            sender_id=peer,
            text=text,
            message_id=name,
            received_at=self.clock.now_ms(),
        )


DERIVED = re.compile(r"-[0-9a-f]{16}\.idx")
"""A file that the index of the memory makes anew, under a name of its content, as words come."""


@dataclass(frozen=True, slots=True)
class InUse:
    """The memory and the descriptors of the process."""

    size: int
    """Bytes that Python holds."""
    files: list[str]
    sockets: int

    @classmethod
    def now(cls) -> Self:
        """Looks at this process."""
        for object_ in gc.get_objects():
            if issubclass(
                type(object_), FormCache
            ):  # `isinstance` asks a weak proxy for its object
                object_.clear()  # each message has a word of its own, and it grows up to its limit
        gc.collect()
        links = [link for path in Path("/proc/self/fd").iterdir() if (link := _target(path))]
        files = sorted(link for link in links if link.startswith("/"))
        return cls(tracemalloc.get_traced_memory()[0], files, len(links) - len(files))


def _target(handle: Path) -> str:
    try:
        return DERIVED.sub("-of-then.idx", str(handle.readlink()))
    except FileNotFoundError:
        return ""  # the handle with which the folder was read


@contextmanager
def unlogged() -> Generator[None]:
    """Disables logging for the block, because pytest keeps all records to the end."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def traced() -> Generator[None]:
    """Counts what Python allocates for the block."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.full("a minute")
async def test_a_day_of_traffic_leaves_memory_and_files_as_they_were(tmp_path: Path) -> None:
    mind = Mind(Random(1), rate=0.05)  # noqa: S311 - the same failures at every run
    async with StubModelServer(mind) as model:
        model.keep_requests = False
        day = Day(tmp_path / "home", model.base_url)
        for _ in range(2):
            async with day.gateway() as application:
                await day.quarter(application)
        with traced(), unlogged():
            async with day.gateway() as application:
                for _ in range(WARM):
                    await day.quarter(application)
                before = InUse.now()
                for number in range(QUARTERS_A_DAY):
                    mind.down = number in OUTAGE
                    await day.quarter(application)
                after = InUse.now()
    print(f"{day.asked} messages; {before.size} bytes, then {after.size}")  # noqa: T201
    assert set(after.files) == set(before.files)
    assert len(after.files) <= len(before.files) + 1  # SQLite keeps a backup's for the next one
    assert after.sockets <= before.sockets + 4  # to the model, which the pool keeps for a while
    assert after.size - before.size < LEAK * QUARTERS_A_DAY * len(PEERS)
    assert mind.failed > 0
    assert 0 < mind.refused < len(OUTAGE) * len(PEERS) / 2  # it rested
    await all_was_done(day.home)


async def all_was_done(home: Path) -> None:
    """Checks the results of a day: copies, conversations of yesterday, the checklist."""
    assert len(backups.every(home)) >= 2
    async with open_store(home / DATABASE) as store:
        sessions = await store.read(
            lambda reader: session_listing.recent(reader, SessionFilter(archived=None), limit=-1)
        )
        indexed = await store.read(lambda reader: reader.one("SELECT count(*) FROM entry_indexed"))
    keys = Counter(session.key.rpartition(":")[2] for session in sessions)
    assert min(keys[peer] for peer in PEERS) >= 2
    assert keys["boot"] >= 1
    assert indexed is not None
    assert indexed[0] > 0
