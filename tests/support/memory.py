"""A memory service over a fake backend, and callers of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from skerry.config.root import Config
from skerry.features.memory.assembly import add_recall, make_commands, make_tools
from skerry.features.memory.service import MemorySearchService
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.ports.tool import Tool, ToolContext
from skerry.sdk.slots import MemoryHolder
from skerry.testing.clock import FakeClock
from skerry.testing.memory import FakeBackend, FakeMemories

OWNER = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
STRANGER = Caller(
    SessionKey.parse("telegram:direct:7"), PeerKind.DIRECT, Origin.STRANGER, channel="telegram"
)
GROUP = Caller(
    SessionKey.parse("telegram:group:9"), PeerKind.GROUP, Origin.OWNER, channel="telegram"
)


@dataclass
class MemoryRig:
    """A workspace with a memory."""

    service: MemorySearchService
    backend: FakeBackend
    workspace: Path
    clock: FakeClock

    async def call(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        caller: Caller | None = OWNER,
        taint: frozenset[Origin] = frozenset(),
    ) -> dict[str, Any]:
        """Returns the result of the tool."""
        context = ToolContext(RootedFolder(self.workspace), None, caller, taint)
        result = await tool.run(arguments, context)
        payload: dict[str, Any] = msgspec.json.decode(result.text)
        return payload

    def put(self, path: str, text: str) -> Path:
        """Writes a file of the workspace."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


def held(backend: FakeBackend, config: Callable[[], Config], hooks: Hooks) -> MemoryHolder:
    """Returns the parts that the memory adds to a gateway, over a fake backend."""
    service = MemorySearchService(FakeMemories(backend), config, FakeClock())
    add_recall(service, hooks)
    return MemoryHolder(service, None, lambda: make_tools(service), lambda: make_commands(service))


def memory_rig(home: Path, backend: FakeBackend | None = None, **tree: Any) -> MemoryRig:
    """Returns a workspace in `home` whose configuration has the sections of `tree`."""
    config = Config.model_validate(
        {"state_dir": home / "state", "path": home / "skerry.json", **tree}
    )
    workspace = config.workspace(config.agents.default_id)
    workspace.mkdir(parents=True, exist_ok=True)
    backend, clock = backend or FakeBackend(), FakeClock()
    service = MemorySearchService(FakeMemories(backend), lambda: config, clock)
    return MemoryRig(service, backend, workspace, clock)
