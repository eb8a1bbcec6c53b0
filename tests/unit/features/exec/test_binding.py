"""The digest of an approved command: it changes with every file that the command names."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from skerry.features.exec import binding as module
from skerry.features.exec.binding import MAX_FILES, binding

MANY = [f"+{number}" for number in range(2 * MAX_FILES)]
"""Words that are sorted before every name of a script."""


def changes(folder: Path, words: Sequence[str], change: Callable[[Path], object]) -> bool:
    """Returns whether changing the script changes the digest of a command with these words."""
    script = folder / "run.sh"
    script.write_text("echo good")
    before = binding("x", words, folder, {}, ())
    assert binding("x", words, folder, {}, ()) == before
    change(script)
    return binding("x", words, folder, {}, ()) != before


@pytest.mark.abuse(67)
@pytest.mark.parametrize(
    "words",
    [
        ["sh", "./run.sh"],
        ["sh", "./run.sh", *MANY],
        ["bash", "--rcfile=run.sh", "-i"],
        ["awk", "-frun.sh"],
        ["java", "@run.sh"],
        ["make", "SHELL=./run.sh"],
    ],
)
def test_a_script_is_part_of_it_in_every_form_and_after_many_words(
    tmp_path: Path, words: list[str]
) -> None:
    assert changes(tmp_path, words, lambda script: script.write_text("echo evil"))


@pytest.mark.abuse(67)
@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_FILES"])
def test_beyond_its_limits_the_time_of_the_inode_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(module, limit, 0)

    def unseen(script: Path) -> None:
        status = script.stat()
        while script.stat().st_ctime_ns == status.st_ctime_ns:  # the clock of files has steps
            script.write_text("echo evil")
            os.utime(script, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert changes(tmp_path, ["sh", "run.sh"], unseen)
