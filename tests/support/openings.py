"""A core with the commands of sessions, and helpers for its tests."""

from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from skerry.commands.table import CommandTable
from skerry.features.sessions.session_opening import session_commands
from skerry.model.ids import SessionKey
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.model.message import Message, UserMessage
from skerry.model.session import SessionEntry
from skerry.store import archive, outbox, sessions
from skerry.testing.channel import ACCOUNT, CHANNEL
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel, echo, unfenced
from tests.support.core import MAIN, Core, open_core

HOUR = 3_600_000
NOON = int(datetime.fromisoformat("2026-05-04 12:00").timestamp() * 1000)  # local time
ALICE = SessionKey.parse("agent:main:memory:direct:alice")


def text(one: Message) -> str:
    return "".join(getattr(block, "text", "") for block in one.content)


async def transcript_texts(core: Core, key: SessionKey = MAIN) -> list[str]:
    return [text(message) for message in await core.transcript(key)]


async def current(core: Core, key: SessionKey = MAIN) -> SessionEntry:
    session = await core.store.read(lambda reader: sessions.find(reader, str(key)))
    assert session is not None
    return session


async def earlier(core: Core, key: SessionKey = MAIN) -> list[SessionEntry]:
    return await core.store.read(lambda reader: archive.earlier(reader, str(key), 10))


class Opened:
    """A core with the commands of sessions, on a clock that the test moves."""

    def __init__(self, home: Path, model: ScriptedModel | None = None, **more: Any) -> None:
        self.clock = FakeClock(NOON)
        self.model = model or ScriptedModel(echo)
        self._table = CommandTable()
        self._stack = AsyncExitStack()
        self._home, self._more = home, more

    async def __aenter__(self) -> Core:
        opening = open_core(
            self._home, self.model, clock=self.clock, commands=self._table, **self._more
        )
        core = await self._stack.enter_async_context(opening)
        for command in session_commands(core.store):
            self._table.add(command)
        return core

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def seen(self) -> list[str]:
        """Returns the messages of people in the model's last request."""
        messages = self.model.requests[-1].messages
        return [unfenced(text(message)) for message in messages if isinstance(message, UserMessage)]


def inbound(words: str, message_id: str, peer: str = "alice", **more: Any) -> InboundMessage:
    kind, sender = more.get("kind", PeerKind.DIRECT), more.get("sender", peer)
    return InboundMessage(CHANNEL, ACCOUNT, Peer(kind, peer), sender, words, message_id, 0)


async def receive(core: Core, words: str, message_id: str, **more: Any) -> None:
    """Lets a person write over a platform, and waits for the end of the run."""
    await core.dispatch.receive(inbound(words, message_id, **more))
    with anyio.fail_after(60):
        for run_id in core.dispatch.active():
            await core.dispatch.wait(run_id, None)


async def delivered(core: Core) -> list[tuple[int, str]]:
    waiting = await core.store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))
    return [(part.part.block, part.part.text) for part in waiting]
