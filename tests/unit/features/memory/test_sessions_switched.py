"""`memory.qmd` is read at each use: the next search omits a source that was switched off."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from skerry.config.memory_qmd import QmdConfig
from skerry.config.reload_rules import Effect, effect
from skerry.features.memory.service import MemorySearchService, SilentError
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryQuestion, MemorySource
from skerry.testing.memory import FakeBackend, FakeMemories
from tests.support.memory import memory_rig
from tests.support.qmd import QmdRig

MAIN = AgentId("main")
TALK = frozenset({MemorySource.SESSIONS})


def test_such_a_change_needs_no_restart() -> None:
    assert effect(("memory", "qmd", "sessions", "enabled")) is Effect.LIVE
    assert effect(("memory", "qmd", "paths")) is Effect.LIVE
    assert effect(("memory", "qmd", "command")) is Effect.RESTART
    assert effect(("memory", "backend")) is Effect.RESTART


async def test_conversations_that_are_switched_off_are_not_searched_from_then_on(
    tmp_path: Path,
) -> None:
    backend = FakeBackend()
    configs = [
        memory_rig(tmp_path).service.config(),
        memory_rig(tmp_path, memory={"qmd": {"sessions": {"enabled": False}}}).service.config(),
    ]
    service = MemorySearchService(FakeMemories(backend), lambda: configs[-1], SystemClock())
    await service.search(MAIN, MemoryQuestion("tea"))
    assert backend.questions[-1].sources == {MemorySource.MEMORY}
    with pytest.raises(SilentError, match="switched off") as caught:
        await service.search(MAIN, MemoryQuestion("tea", sources=TALK))
    assert "memory.qmd.sessions.enabled" in caught.value.remedy
    configs.pop()
    await service.search(MAIN, MemoryQuestion("tea"))
    assert backend.questions[-1].sources == frozenset(MemorySource)


async def test_qmd_follows_its_section_with_its_next_update(tmp_path: Path) -> None:
    qmd = QmdRig(tmp_path)

    async def export(folder: Path) -> Mapping[str, str]:
        (folder / "abc.md").write_text("User: where is the harbour?\n", "utf-8")
        return {"abc.md": "agent:main:main"}

    memory = qmd.memory(export=export, sessions={"enabled": False})
    await memory.sync()
    question = MemoryQuestion("harbour", sources=TALK)
    assert (await memory.search(question)).hits == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.md").write_text("lighthouse\n", "utf-8")
    paths = [{"path": str(tmp_path / "other"), "name": "other"}]
    command = {"command": str(qmd.fake.command)}
    qmd.config = QmdConfig.model_validate(command | {"paths": paths})
    await memory.sync()
    assert len((await memory.search(question)).hits) == 1
    assert len((await memory.search(MemoryQuestion("lighthouse"))).hits) == 1
