"""The tool `browser` with a real Chromium, in the small internet of `net_lab`."""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from skerry.config.root import Config
from skerry.features.browser.config import BrowserConfig
from skerry.features.browser.tool import BrowserTool
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.net.connect import CheckedConnect
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost
from skerry.testing.clock import FakeClock
from tests.support.mcp import OWNER
from tests.support.net_lab import PUBLIC, Answer, Lab, RecordedRequest, lab, reply

FOLDER = RootedFolder(Path(__file__).parent)  # the tool opens no file in it
READER = ToolContext(FOLDER, caller=OWNER)
TAINTED = ToolContext(FOLDER, caller=OWNER, taint=frozenset({Origin.WEB}))


class Configured:
    """A host whose section `browser` a test changes."""

    def __init__(self, home: Path, start: Callable[..., None], **settings: Any) -> None:
        self.home = home
        self.heard: list[Callable[[Config], None]] = []
        self.set(**settings)
        self.host = ToolHost(
            config=lambda: self.config,
            store=None,  # type: ignore[arg-type] # the tool stores nothing
            environ=dict(os.environ),
            clock=FakeClock(),
            start=start,
            on_config_change=self.heard.append,
        )

    def set(self, web: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Replaces the configuration."""
        values = {"enabled": True, "noSandbox": True, **settings}
        config = Config.model_validate(
            {"state_dir": self.home, "path": self.home / "skerry.json", "tools": {"web": web or {}}}
        )
        section = BrowserConfig.model_validate(values)
        self.config = config.model_copy(update={"browser": section})
        for hear in self.heard:
            hear(self.config)


@dataclass
class Browsing:
    """A browser tool and the internet that its pages are on."""

    world: Lab
    tool: BrowserTool
    configured: Configured
    pages: dict[str, bytes | Answer]

    async def do(self, action: str, **arguments: Any) -> ToolResult:
        """Makes a call as the owner."""
        return await self.tool.run({"action": action, **arguments}, READER)

    async def see(self, action: str, **arguments: Any) -> str:
        """Makes a call as the owner; returns its text."""
        return (await self.do(action, **arguments)).text

    async def act(self, kind: str, **arguments: Any) -> str:
        return await self.see("act", kind=kind, **arguments)

    @property
    def requested(self) -> list[str]:
        """Returns the requests that the servers received, without icons."""
        return [
            f"{asked.method} {asked.path}"
            for asked in self.world.asked
            if asked.path != "/favicon.ico"
        ]


def ref(text: str, element: str) -> str:
    """Returns the ref of the first element whose line begins with `element`."""
    match = re.search(rf"- {re.escape(element)}.*? \[(e\d+)\]", text)
    assert match, f"no {element} in:\n{text}"
    return match[1]


def page(body: str, title: str = "Page") -> bytes:
    return f"<!doctype html><meta charset=utf-8><title>{title}</title>{body}".encode()


@asynccontextmanager
async def browsing(
    home: Path,
    pages: Mapping[str, bytes | Answer],
    names: Mapping[str, str | list[list[str]]] | None = None,
    **settings: Any,
) -> AsyncIterator[Browsing]:
    """Runs a tool whose browser sees `pages` on `a.example`; ends the browser at the end."""
    shown = dict(pages)
    async with lab(**{"a_example": PUBLIC, **(names or {})}) as world:

        async def answer(stream: anyio.abc.ByteStream, asked: RecordedRequest) -> None:
            content = shown.get(asked.path.partition("?")[0], b"")
            if isinstance(content, bytes):
                content = reply(content, content_type="text/html", connection="close")
            await content(stream, asked)
            await stream.aclose()

        await world.serve(PUBLIC, 80, answer)
        async with anyio.create_task_group() as tasks:

            def start(work: Callable[[], Awaitable[None]], _: str) -> None:
                async def run() -> None:
                    await work()

                tasks.start_soon(run)

            configured = Configured(home, start, **settings)
            tool = BrowserTool(
                configured.host, lambda rules: CheckedConnect(rules, world.resolve, world.dial)
            )
            yield Browsing(world, tool, configured, shown)
            tasks.cancel_scope.cancel()


def processes(folder: Path) -> list[int]:
    """Returns the processes whose command line names the folder."""
    numbers = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if str(folder).encode() in words and not is_dead:
            numbers.append(int(entry.name))
    return numbers


async def until_none(folder: Path) -> None:
    """Waits until no process names the folder."""
    with anyio.fail_after(60):
        while processes(folder):  # noqa: ASYNC110 - nothing announces it
            await anyio.sleep(0.05)
