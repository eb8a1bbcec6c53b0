"""Kills in process: a copy of the state on disk at a named point, as a kill leaves it.

A process that is killed leaves its files as they are; what it would have done with them is lost. So
a life that goes on may be looked at as if it had been killed at each point that it reached: its
files are copied there, and the next life begins with the copy. One life gives every moment, and
none needs a process of its own. That a real `kill -9` leaves the same is shown beside it.
"""

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, asynccontextmanager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from skerry.app.build import Application, Outside, open_application
from skerry.app.settings import Settings
from skerry.client.discover import GatewayAddress
from skerry.config.load import prepare
from skerry.gateway.server import create_app
from skerry.infra.clock import Clock, SystemClock
from skerry.model.message import ToolCall, ToolResultMessage, UserMessage
from skerry.ports.model import ModelRequest, Models
from skerry.store import DATABASE, no_fault
from skerry.testing.channel import OPEN, FakePlatform, MemoryChannel
from skerry.testing.model import ScriptedModel, ScriptedModels, Step, echo, unfenced
from tests.support.gateway import serving

SHARED = "-shm"
"""Ending of a file that is made anew from the others, and that nobody has who opens a copy."""


@dataclass
class Moments:
    """Copies a folder at those points, `name:number`, that are wanted, into folders named so."""

    folder: Path
    into: Path
    wanted: AbstractSet[str]
    turn: AbstractContextManager[Any] = field(default_factory=nullcontext)
    """Held while a transaction is written: a copy waits for that, unless it is made in it."""
    about: str = ""
    """The request of this life, where several are tried."""
    reached: set[str] = field(default_factory=set[str])
    _times: Counter[str] = field(default_factory=Counter[str])

    def __getitem__(self, moment: str) -> Path:
        """Returns the folder as it was then."""
        return self.into / moment

    def reach(self, point: str) -> None:
        """Copies the folder; called at each named fault point."""
        self._times[point] += 1
        moment = f"{point}:{self._times[point]}"
        if moment not in self.wanted:
            return
        with nullcontext() if point.startswith("store.") else self.turn:
            # The locks that SQLite has on the file are this process's, and nobody else opens it.
            copied(self.folder, self.into / moment)
        self.reached.add(moment)


def copied(source: Path, target: Path) -> None:
    """Copies a folder in use; what goes away meanwhile, as a file that is renamed, is left out."""
    for folder, _, names in os.walk(source):
        path = target / Path(folder).relative_to(source)
        path.mkdir(mode=0o700, parents=True)
        for name in names:
            if not name.endswith(SHARED):
                with suppress(FileNotFoundError):
                    shutil.copy2(Path(folder, name), path / name)


def answers(request: ModelRequest) -> Sequence[Step]:
    """Answers as `tests.support.chaos.answers` does."""
    messages = request.history.messages
    asked = next(
        unfenced(message.text) for message in reversed(messages) if isinstance(message, UserMessage)
    )
    word, _, name = asked.rpartition(" ")
    if word and not isinstance(messages[-1], ToolResultMessage):
        tool, more = ("write", {"content": "x"}) if word == "write" else ("read", {})
        call = ToolCall(f"call_{len(messages)}", tool, {"path": "a.txt"} | more)
        return ["looking into it", call]
    return [f"answer to {name}"]


@dataclass(frozen=True)
class Life:
    """A gateway in this process, its platform, and where clients reach it."""

    gateway: Application
    platform: FakePlatform
    home: Path
    address: GatewayAddress


@asynccontextmanager
async def life(
    folder: Path,
    reach: Callable[[str], None] = no_fault,
    models: Models | None = None,
    config: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Life]:
    """Runs a gateway over `home` and `platform` of a folder, and drains it in the end.

    `config` is written where there is none yet; without `models` it says who answers.
    """
    home, platform = folder / "home", FakePlatform(folder / "platform")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home / "skerry.json"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(msgspec.json.encode(config or {}))
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    settings = Settings(prepare(environ), environ)
    outside = Outside(
        models=models,
        adapters=[MemoryChannel(platform)],
        unnamed_channels=OPEN,
        reach=reach,
        clock=clock or SystemClock(),
    )
    async with (
        open_application(settings, environ, outside) as gateway,
        serving(create_app(gateway.context)) as port,
    ):
        token = settings.config.gateway.auth.secret
        yield Life(gateway, platform, home, GatewayAddress(f"ws://127.0.0.1:{port}", token))
        assert await gateway.drain()


def scripted() -> ScriptedModels:
    """Returns models that answer as those of `tests.support.chaos` do."""
    return ScriptedModels(ScriptedModel(answers))


def echoing() -> ScriptedModels:
    """Returns models that echo."""
    return ScriptedModels(ScriptedModel(echo))


def outcome_of(folder: Path) -> dict[str, object]:
    """Returns what a life left: messages, runs, parts and entries, and what the platform has."""
    with closing(sqlite3.connect(folder / "home" / DATABASE)) as database:
        rows: dict[str, object] = {
            name: database.execute(f"SELECT {what} FROM {name} ORDER BY 1").fetchall()  # noqa: S608 - of ours
            for name, what in (
                ("inbound", "count(*)"),
                ("run", "result IS NULL"),
                ("outbox", "state, block"),
                ("entry", "seq"),
            )
        }
    platform = FakePlatform(folder / "platform")
    received = [(message.peer, message.text) for message in platform.received()]
    return rows | {"received": received}
