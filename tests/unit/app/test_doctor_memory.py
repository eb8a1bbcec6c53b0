"""What the doctor says of QMD."""

from pathlib import Path
from typing import Any

import pytest

from skerry.app.checks import Level
from skerry.app.doctor_memory import qmd
from skerry.config.root import Config
from skerry.testing.qmd import FakeQmd


def config(folder: Path, **memory: Any) -> Config:
    tree = {"memory": memory, "state_dir": folder, "path": folder / "skerry.json"}
    return Config.model_validate(tree)


async def test_who_does_not_use_it_reads_nothing_of_it(tmp_path: Path) -> None:
    assert await qmd(config(tmp_path), {}) == []


async def test_the_program_and_its_node_are_named(tmp_path: Path) -> None:
    fake = FakeQmd(tmp_path)
    given = config(tmp_path, backend="qmd", qmd={"command": str(fake.command)})
    (check,) = await qmd(given, fake.environ)
    assert (check.level, check.message) == (Level.OK, f"{fake.command}, Node 24.1.0")
    assert fake.calls() == [], "it is looked at, not run"


@pytest.mark.parametrize(
    ("version", "command", "said", "remedy"),
    [
        ("v20.1.0", "", "needs Node 22", "Install Node 22"),
        ("v24.1.0", "no-such-qmd", "not installed", "npm install -g @tobilu/qmd"),
    ],
)
async def test_what_is_missing_is_said_with_the_remedy(
    tmp_path: Path, version: str, command: str, said: str, remedy: str
) -> None:
    fake = FakeQmd(tmp_path, node=version)
    given = config(tmp_path, backend="qmd", qmd={"command": command or str(fake.command)})
    (check,) = await qmd(given, fake.environ)
    assert check.level is Level.WARNING
    assert said in check.message
    assert remedy in check.remedy
