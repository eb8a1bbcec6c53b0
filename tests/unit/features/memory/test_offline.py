"""The memory of a command without a gateway: it looks at the files once, and at all of them."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.config.root import Config
from skerry.features.memory.offline import open_memory
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryAnswer, MemoryQuestion

MAIN = AgentId("main")
FOLDERS = 3
FILES = 600
"""Enough for a watch, which a command has no use for."""


def configured(home: Path) -> Config:
    search = {"defaults": {"memorySearch": {"provider": "none"}}}
    tree = {"agents": search, "state_dir": home, "path": home / "skerry.json"}
    return Config.model_validate(tree)


async def offline_answer(config: Config, question: str) -> MemoryAnswer:
    """Returns the answer of a command without a gateway."""
    with anyio.fail_after(60):
        async with open_memory(config, {}) as alone:
            await alone.prepare(MAIN, question, lambda _: None)
            return await alone.parts.service.search(MAIN, MemoryQuestion(question, 3))


async def test_a_search_lists_each_folder_once_and_has_what_changed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)
    notes = config.workspace(MAIN) / "memory"
    for number in range(FILES):
        file = notes / str(number % FOLDERS) / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"The boat {number} is blue.\n")
    assert (await offline_answer(config, "boat 12")).hits[0].path == "memory/0/12.md"
    (notes / "2" / "17.md").write_text("The zebra is striped.\n")
    listed: list[str] = []
    scandir = os.scandir

    def counted(path: Any) -> Any:
        listed.append(os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    answer = await offline_answer(config, "zebra")
    monkeypatch.undo()
    assert answer.hits[0].path == "memory/2/17.md"
    for folder in (notes, *(notes / str(number) for number in range(FOLDERS))):
        assert listed.count(str(folder)) == 1, folder
