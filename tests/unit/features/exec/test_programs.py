"""Programs are found on a fixed search path, and only where nobody else can change them."""

from pathlib import Path

import pytest

from skerry.features.exec.programs import is_ours, resolve


@pytest.mark.abuse(64)
def test_a_program_in_front_on_the_path_of_the_environment_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("git", "only-here"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    program = resolve("git")
    assert program is not None
    assert (program.name, program.path) == ("git", "/usr/bin/git")
    assert resolve("only-here") is None


@pytest.mark.parametrize(
    "word",
    [
        *("", ".", "..", "-", "no-such-program", "./git", "bin/git", "//usr/bin/git"),
        *("/usr/bin/../bin/git", "/usr//bin/git", "/usr/bin/git/", "/usr/bin", "/proc/self/exe"),
        *("/proc/self/root/usr/bin/git", "/etc/passwd", "~/git", "/usr/bin/git\0"),
    ],
)
def test_only_names_and_plain_absolute_paths_of_programs_are_resolved(word: str) -> None:
    assert resolve(word) is None


def test_a_program_in_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    (open_folder / "git").symlink_to("/usr/bin/git")
    assert resolve(str(open_folder / "git")) is None
    assert resolve("git", [str(open_folder), "/usr/bin"]) is None


@pytest.mark.parametrize(
    ("mode", "trusted"), [(0o755, True), (0o700, True), (0o775, False), (0o757, False)]
)
def test_a_file_that_group_or_others_can_write_to_is_not_ours(
    tmp_path: Path, mode: int, *, trusted: bool
) -> None:
    file = tmp_path / "program"
    file.write_text("")
    file.chmod(mode)
    assert is_ours(file.stat()) is trusted
