"""`skerry memory status` and `index`: with a gateway through it, else by themselves."""

import os
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final, Protocol

import anyio

from skerry.app.build import open_state
from skerry.app.memories import BuiltinMemories
from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.config.secrets import secrets
from skerry.infra.clock import SystemClock, iso
from skerry.infra.log import Redactor
from skerry.model.errors import ClientError, GatewayUnreachableError, StateLockedError
from skerry.model.ids import AgentId, agent_id
from skerry.model.memory import MemoryProgress
from skerry.model.memory_json import report_of, status_of

WAIT_SECONDS: Final = 86_400.0
"""Embedding a hundred thousand passages here takes hours; each batch is kept."""
POLL_SECONDS: Final = 0.5
BAR: Final = 24
_NOTHING: Final = "Nothing is remembered yet: write MEMORY.md or memory/*.md in {workspace}."


class _Memory(Protocol):
    """An agent's memory, wherever it is."""

    async def status(self) -> dict[str, Any]: ...

    async def sync(
        self, *, force: bool, progress: Callable[[MemoryProgress], None]
    ) -> dict[str, Any]: ...


def run(arguments: Namespace) -> int:
    """Run `skerry memory status` or `index`; return the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    config = load_good(os.environ).config
    agent = _agent(config, arguments.agent)
    async with _memory(config, agent, arguments) as memory:
        if arguments.action == "index":
            return await _index(memory, arguments)
        found = await memory.status()
    if arguments.json:
        show_json(found)
    else:
        _show(found, str(config.workspace(agent)))
    return 0


def _agent(config: Config, named: str | None) -> AgentId:
    agent = agent_id(named) if named else config.agents.default_id
    if agent not in config.agents.ids:
        error = ClientError(f"There is no agent {agent!r}.")
        error.remedy = f"There are: {', '.join(config.agents.ids)}."
        raise error
    return agent


async def _index(memory: _Memory, arguments: Namespace) -> int:
    bar = Bar()
    try:
        report = await memory.sync(force=arguments.force, progress=bar)
    finally:
        bar.end()
    if arguments.json:
        show_json(report)
        return 0
    show(
        f"{report['added']} new, {report['changed']} changed, {report['removed']} gone,"
        f" {report['unchanged']} as they were; {report['chunks']} passages written,"
        f" {report['embedded']} embedded."
    )
    for one in report["failed"]:
        notice(f"not indexed: {one_line(one['path'])}: {one_line(one['reason'])}")
    return 0


@asynccontextmanager
async def _memory(config: Config, agent: AgentId, arguments: Namespace) -> AsyncGenerator[_Memory]:
    """Give the memory through a gateway that runs, else out of the state directory."""
    try:
        async with open_state(config) as (store, _):
            redactor = Redactor()
            redactor.know(secrets(config, os.environ))
            own = BuiltinMemories(lambda: config, store, SystemClock(), redactor)
            async with own.open(keep=False):
                yield _Here(own, agent)
            return
    except StateLockedError as error:
        held = error
    try:
        address = find(os.environ, url=arguments.url, token=arguments.token)
        async with GatewayClient(address) as client:
            yield _There(client, agent)
    except GatewayUnreachableError as error:
        raise held from error


class _Here:
    """The memory under our own lock."""

    def __init__(self, memories: BuiltinMemories, agent: AgentId) -> None:
        self._memory = memories.of(agent)

    async def status(self) -> dict[str, Any]:
        return status_of(await self._memory.status())

    async def sync(
        self, *, force: bool, progress: Callable[[MemoryProgress], None]
    ) -> dict[str, Any]:
        return report_of(await self._memory.sync(force=force, progress=progress))


class _There:
    """The memory of a gateway that runs."""

    def __init__(self, client: GatewayClient, agent: AgentId) -> None:
        self._client = client
        self._agent = {"agentId": agent}

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._client.request("memory.status", self._agent)
        return found

    async def sync(
        self, *, force: bool, progress: Callable[[MemoryProgress], None]
    ) -> dict[str, Any]:
        report: dict[str, Any] = {}
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                params = self._agent | {"force": force}
                asked = self._client.request("memory.sync", params, timeout=WAIT_SECONDS)
                report.update(await asked)
                tasks.cancel_scope.cancel()

            tasks.start_soon(ask)
            await _follow(self.status, progress)
        return report


async def _follow(
    status: Callable[[], Awaitable[dict[str, Any]]], progress: Callable[[MemoryProgress], None]
) -> None:
    """Tell how far the job is until cancelled."""
    while True:
        await anyio.sleep(POLL_SECONDS)
        now = (await status())["progress"]
        if now is not None:
            progress(MemoryProgress(**now))


class Bar:
    """Shows how far a job is, how fast, and how long it may take, on a terminal; else nothing."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._begin = 0.0
        self._from = 0
        self._shown = False

    def __call__(self, now: MemoryProgress) -> None:
        """Show it."""
        if not sys.stderr.isatty():
            return
        if now.stage != self._stage:
            self._stage, self._begin, self._from = now.stage, self._clock(), now.done
        line = bar(now, now.done - self._from, self._clock() - self._begin)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def end(self) -> None:
        """Leave the line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def bar(now: MemoryProgress, done: int, seconds: float) -> str:
    """Return the line: `done` were done in so many seconds (pure)."""
    share = now.done / now.total if now.total else 1.0
    full = round(share * BAR)
    line = f"{now.stage} [{'#' * full}{'.' * (BAR - full)}] {now.done}/{now.total}"
    if done <= 0 or seconds <= 0:
        return line
    rate = done / seconds
    left = round((now.total - now.done) / rate)
    rest = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
    return f"{line}  {rate:.1f}/s  {rest} left"


def _show(found: dict[str, Any], workspace: str) -> None:
    if not found["files"]:
        show(_NOTHING.format(workspace=one_line(workspace)))
    at = found["indexedAt"]
    rows = [
        ("agent", found["agentId"]),
        ("answers", found["backend"]),
        ("search", "words and meaning" if found["mode"] == "hybrid" else "words"),
        ("model", f"{found['provider']}/{found['model']}" if found["model"] else "none"),
        ("files", str(found["files"])),
        ("passages", f"{found['chunks']}, {found['vectors']} with a vector"),
        ("indexed", iso(at) if at else "never; now: skerry memory index"),
        ("index", one_line(found["database"])),
    ]
    show(table(rows))
    for one in found["sources"]:
        show(f"  {one['source']}: {one['files']} files, {one['chunks']} passages")
    if found["fallback"]:
        notice(f"{found['fallback']['from']}: {one_line(found['fallback']['reason'])}")
    for note in found["notes"]:
        notice(styled(one_line(note), "yellow", sys.stderr))
