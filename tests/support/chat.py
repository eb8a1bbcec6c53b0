"""A person who writes over a chat platform to a core, and what the outbox has for them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.features.files.read_tool import Read
from skerry.hooks.hooks import Hooks
from skerry.model.event import TextDelta
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.run import RunRequest, RunResult
from skerry.model.session import SessionSettings
from skerry.ports.tool import Tool
from skerry.store import Unit, archive, outbox, sessions
from skerry.testing.model import ScriptedModel, Step
from tests.support.core import MAIN, Core, open_core

CHANNEL, ACCOUNT = ChannelId("memory"), AccountId("default")
TO = ReplyTo(CHANNEL, ACCOUNT, Peer(PeerKind.DIRECT, "alice"), "m1")
BLOCKS: dict[str, Any] = {
    "blockStreamingDefault": "on",
    "blockStreamingChunk": {"minChars": 10, "maxChars": 40},
    "blockStreamingCoalesce": {"idleMs": 0},
}
ONE, TWO, THREE = "The first paragraph.\n\n", "The second paragraph.\n\n", "The end."


@dataclass
class Chat:
    """A core whose person writes over a platform."""

    core: Core

    async def write(self, text: str = "hi", to: ReplyTo = TO) -> None:
        await self.core.dispatch.submit(RunRequest(RunId(text), MAIN, text, reply_to=to))

    async def end(self, run_id: str = "hi") -> RunResult:
        with anyio.fail_after(60):
            result = await self.core.dispatch.wait(RunId(run_id), None)
        assert result is not None
        return result

    async def ask(self, text: str = "hi", to: ReplyTo = TO) -> RunResult:
        await self.write(text, to)
        return await self.end(text)

    async def sent(self) -> list[str]:
        return [part.part.text for part in await self.parts()]

    async def parts(self) -> list[outbox.WaitingPart]:
        return await self.core.store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))

    async def until_sent(self, count: int) -> list[str]:
        with anyio.fail_after(60):
            while len(found := await self.sent()) < count:  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.005)
        return found

    async def change(self, settings: SessionSettings) -> None:
        def write(unit: Unit) -> None:
            session_id, _ = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            archive.change(unit, session_id, label="", settings=settings)

        await self.core.store.write(write)


@asynccontextmanager
async def chat(
    home: Path,
    script: Sequence[Sequence[Step]],
    hooks: Hooks | None = None,
    tools: tuple[Tool, ...] = (Read(),),
    **defaults: Any,
) -> AsyncGenerator[Chat]:
    agents = AgentsConfig(defaults=AgentDefaults.model_validate(defaults))
    model = ScriptedModel(script)
    granted = tuple(tool.spec.name for tool in tools)
    async with open_core(
        home, model, agents=agents, hooks=hooks, tools=tools, granted=granted
    ) as core:
        yield Chat(core)


def client_text(core: Core) -> str:
    """Returns what clients of the gateway were told."""
    return "".join(event.body.delta for event in core.events if isinstance(event.body, TextDelta))
