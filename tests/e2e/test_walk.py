"""The script that prints the way of a message follows one through the whole gateway."""

from pathlib import Path

import pytest

from scripts.walk import followed, package, report

STEPS = (
    "skerry/gateway/connection.py",
    "skerry/policy/decide.py",
    "skerry/runtime/dispatcher.py",
    "skerry/runtime/run.py",
    "skerry/runtime/loop.py",
    "skerry/features/openai_completions/provider.py",
    "skerry/runtime/finalize.py",
)

MAX_FILES = 62
"""Files that a text turn may enter (ADR 38: it enters 61)."""


async def test_the_way_of_a_message_has_its_steps_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    follower = await followed(tmp_path)
    entered = follower.entered
    files = list(dict.fromkeys(file for file, _ in entered))
    assert [file for file in files if file in STEPS] == list(STEPS)
    assert report(entered, functions=True) == len(files)
    assert len(files) <= MAX_FILES
    assert not [file for file in files if file.startswith(("skerry/testing/", "skerry/client/"))]
    assert "skerry/store/mirror.py" in {file for file, _ in follower.behind}
    assert f"{len(files)} files" in capsys.readouterr().out.splitlines()[-1]


def test_the_package_of_a_file_is_its_folder() -> None:
    assert package("skerry/runtime/compaction/compactor.py") == "skerry/runtime"
    assert package("skerry_recall/fuse.py") == "skerry_recall"
