"""`skerry backup create` while something is being forgotten."""

from argparse import Namespace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from skerry.features.backup import cli_run as backup
from skerry.model.ids import AgentId
from skerry.model.redaction import Redaction
from skerry.store import DATABASE, backups, open_store
from skerry.store.forgetting import begin, finish, holds

ZEBRA = Redaction(["zebra"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    return tmp_path


def create() -> int:
    return backup.run(Namespace(action="create", json=False))


async def test_a_backup_waits_for_a_forget_and_then_has_none_of_its_words(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = anyio.Event()
    real = backups.create

    def counted(*given: object) -> backups.Backup:
        one = real(*given)  # type: ignore[arg-type] # as it was called
        anyio.from_thread.run_sync(made.set)
        return one

    monkeypatch.setattr(backups, "create", counted)
    monkeypatch.setattr(backup, "PATIENCE_SECONDS", 120.0)
    async with open_store(home / DATABASE) as store, anyio.create_task_group() as tasks:
        job = await store.write(lambda unit: begin(unit, AgentId("main"), ["zebra"], 1))
        tasks.start_soon(anyio.to_thread.run_sync, create)
        with anyio.fail_after(60):
            await made.wait()
        await finish(store, job)
    (one,) = backups.every(home)
    assert not holds(one.path, ZEBRA)
    assert "being forgotten" not in capsys.readouterr().err


async def test_where_a_forget_does_not_end_a_backup_is_made_and_said_to_have_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backup, "PATIENCE_SECONDS", 0.0)
    async with open_store(home / DATABASE) as store:
        await store.write(lambda unit: begin(unit, AgentId("main"), ["zebra"], 1))
        assert await anyio.to_thread.run_sync(create) == 0
    (one,) = backups.every(home)
    assert holds(one.path, ZEBRA)
    told = capsys.readouterr()
    assert str(one.path) in told.out
    assert "still contains the text" in told.err
    assert str(one.path) in told.err
