"""The hooks around a compaction."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.context_limits import Compaction, MemoryFlush
from skerry.hooks.events import AfterCompaction, BeforeCompaction
from skerry.hooks.hooks import Hooks
from skerry.ports.model import ModelRequest
from skerry.sessions.summary import SYSTEM
from skerry.testing.model import MODEL, ScriptedModel, echo
from tests.support.core import MAIN, open_core
from tests.support.hooks import on

QUIET = Compaction(memory_flush=MemoryFlush(enabled=False))


@pytest.mark.requirement("hooks-compaction")
async def test_plugins_see_a_compaction_begin_and_end(tmp_path: Path) -> None:
    payloads: list[BeforeCompaction | AfterCompaction] = []

    async def look(event: BeforeCompaction | AfterCompaction) -> None:
        payloads.append(event)

    hooks = Hooks()
    on(hooks.before_compaction, look)
    on(hooks.after_compaction, look)
    agents = AgentsConfig(defaults=AgentDefaults(compaction=QUIET))

    def model(request: ModelRequest) -> list[str]:
        return ["A summary."] if request.system == SYSTEM else list(map(str, echo(request)))

    async with open_core(tmp_path, ScriptedModel(model), hooks=hooks, agents=agents) as core:
        core.models.info = replace(MODEL, context_window=2400, max_tokens=200)
        for number in range(16):
            await core.ask(f"message {number} " + "blue " * 40)
    before, after = payloads[:2]
    assert isinstance(before, BeforeCompaction)
    assert isinstance(after, AfterCompaction)
    assert (before.session_key, before.trigger) == (str(MAIN), "threshold")
    assert after.summary.startswith("A summary.")
    assert after.by_model
    assert after.message_count + after.compacted_count - 1 == before.message_count
    assert after.token_count < before.token_count
