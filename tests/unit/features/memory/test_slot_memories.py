"""Who is in the memory slot, as the configuration says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.features.memory.slot import FallbackMemoryManager
from skerry.features.memory.slot_memories import SlotMemories
from skerry.model.ids import AgentId, agent_id
from skerry.model.memory import MemoryQuestion, TrackedConversation, Utterance
from skerry.testing.clock import FakeClock
from skerry.testing.memory import FakeBackend, FakeMemories
from tests.support.fake_qmd import FakeQmd
from tests.support.qmd import until

MAIN = agent_id("main")


class Nobody:
    """Transcripts of nothing; implements `ports.memory.Transcripts`."""

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        assert (agent, since > 0) == ("main", True)
        return []

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        assert not after  # all of it is asked for
        raise AssertionError(conversation)


def config(folder: Path, **memory: Any) -> Config:
    (folder / "workspace").mkdir(exist_ok=True)
    tree = {"memory": memory, "state_dir": folder, "path": folder / "skerry.json"}
    return Config.model_validate(tree)


@pytest.mark.requirement("qmd-exclusive-backend")
@pytest.mark.requirement("qmd-config-backend")
@pytest.mark.requirement("qmd-status-backend")
async def test_qmd_serves_where_it_is_configured_and_the_built_in_one_behind_it(
    tmp_path: Path,
) -> None:
    fake = FakeQmd(tmp_path / "program")
    qmd = {"command": str(fake.command), "daemon": False, "limits": {"timeoutMs": 30_000}}
    loaded = config(tmp_path, backend="qmd", qmd=qmd)
    (tmp_path / "workspace/MEMORY.md").write_text("The harbour.\n", "utf-8")
    backend = FakeBackend()
    clock, memories = FakeClock(), FakeMemories(backend)
    slot = SlotMemories(lambda: loaded, memories, Nobody(), clock, str, fake.environ)
    async with slot.open():
        memory = slot.of(MAIN)
        assert isinstance(memory, FallbackMemoryManager)
        await until(lambda: fake.calls("update"))
        await memory.sync()
        answer = await memory.search(MemoryQuestion("harbour"))
        assert (answer.backend, len(answer.hits)) == ("qmd", 1)
        assert (await memory.status()).backend == "qmd"
        assert (tmp_path / "agents/main/qmd/xdg-cache/qmd/index.sqlite").exists()
        fake.behave(query="segfault")
        answer = await memory.search(MemoryQuestion("harbour"))
        assert answer.fallback is not None
        assert answer.fallback.origin == "qmd"
        assert "segmentation fault" in answer.fallback.reason
        assert (await memory.status()).fallback == answer.fallback
    assert slot.of(MAIN) is backend
    await until(lambda: fake.running() == [])


async def test_without_it_the_built_in_one_serves_alone(tmp_path: Path) -> None:
    loaded, backend = config(tmp_path), FakeBackend()
    slot = SlotMemories(lambda: loaded, FakeMemories(backend), Nobody(), FakeClock(), str, {})
    async with slot.open():
        assert slot.of(MAIN) is backend
    assert not (tmp_path / "agents").exists()
