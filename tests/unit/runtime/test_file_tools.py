"""The file tools in a run: they work in the workspace, but not on the gateway's own files."""

import json
from pathlib import Path

import pytest

from skerry.model.message import ToolResultMessage
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import Core, open_core


async def call(core: Core, tool: str, **arguments: str) -> ToolResultMessage:
    await core.ask(f"call {tool} {json.dumps(arguments)}")
    return [
        message for message in await core.transcript() if isinstance(message, ToolResultMessage)
    ][-1]


async def test_a_model_makes_edits_and_reads_a_file(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await call(core, "write", path="notes/a.md", content="one\ntwo\n")
        edited = await call(core, "edit", path="notes/a.md", oldText="two", newText="2")
        read = await call(core, "read", path="notes/a.md")
        assert (edited.text, edited.is_error) == ("Edited notes/a.md at line 2.", False)
        assert read.text == "1: one\n2: 2"
        assert (core.workspace / "notes/a.md").read_bytes() == b"one\n2\n"


@pytest.mark.parametrize("path", ["hooks/x/handler.py", "skills/a/SKILL.md", ".git/hooks/pre-push"])
async def test_where_code_is_loaded_from_a_model_writes_nothing(tmp_path: Path, path: str) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        refused = await call(core, "write", path=path, content="x")
        assert refused.is_error
        assert "Cannot write" in refused.text
        assert list(core.workspace.iterdir()) == []
