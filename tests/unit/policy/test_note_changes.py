"""Files that a command of a tainted run changed are recorded; those of an untainted run are not."""

import time
from pathlib import Path

import pytest

from skerry.config.protected import gate
from skerry.model.origin import Origin
from skerry.policy import file_gate as gates
from skerry.policy.decide import Actor
from skerry.policy.file_records import FileRecords
from tests.support.tool_rules import config


@pytest.mark.parametrize("taint", [frozenset[Origin](), frozenset({Origin.WEB})])
def test_only_what_changed_since_the_start_of_the_command_is_recorded(
    tmp_path: Path, taint: frozenset[Origin]
) -> None:
    (tmp_path / "old.txt").write_text("old")
    time.sleep(0.05)
    began, records = time.time_ns() - 20_000_000, FileRecords()
    (tmp_path / "new.txt").write_text("new")
    rules = gate(config({}), Actor(Origin.OWNER, is_private=True, taint=taint), records)
    rules.note_changes(tmp_path, began, Origin.LOCAL)
    root = tmp_path.resolve()
    assert records.taint_of(str(root / "new.txt")) == taint
    assert records.of(str(root / "old.txt")) is None


def test_a_directory_with_too_many_files_is_recorded_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "MAX_CHANGED_FILES", 1)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    records = FileRecords()
    taint = frozenset({Origin.WEB})
    rules = gate(config({}), Actor(Origin.OWNER, is_private=True, taint=taint), records)
    rules.note_changes(tmp_path, time.time_ns() + 10**12, Origin.LOCAL)
    path = str(tmp_path.resolve() / "a")
    assert records.of_file(path, 1, lambda: b"") == taint
