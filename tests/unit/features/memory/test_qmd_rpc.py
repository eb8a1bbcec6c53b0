"""How requests go to QMD's server over its pipes."""

from os import defpath
from pathlib import Path

import anyio
import pytest

from skerry.features.memory import qmd_rpc
from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_rpc import JsonRpc
from skerry.infra.process import Program, child
from skerry.infra.supervise import in_background


async def test_an_answer_that_is_nested_too_deep_is_no_answer(tmp_path: Path) -> None:
    text = 'read -r _; printf "{\\"x\\":"; yes "[" | head -n 99999 | tr -d "\\n"; echo'
    command = ["sh", "-c", text]
    with anyio.fail_after(60):
        async with child(Program(command, {"PATH": defpath}, tmp_path), listens=True) as it:
            talk = JsonRpc(it)
            async with in_background(talk.run):
                with pytest.raises(QmdError, match="not JSON"):
                    await talk.request("query", {})


async def test_a_server_that_reads_nothing_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qmd_rpc, "_SEND_SECONDS", 0.01)
    whole = {"text": "x" * 1_000_000}  # more than a pipe takes at once
    with anyio.fail_after(60):
        async with child(Program(["sleep", "300"], {}, tmp_path), listens=True) as process:
            talk = JsonRpc(process)
            with pytest.raises(QmdError, match="reads nothing"):
                await talk.request("query", whole)
            # The next would be read as the rest of that one.
            assert talk.over.is_set()
            with pytest.raises(QmdError, match="reads nothing"):
                await talk.request("query", {})
