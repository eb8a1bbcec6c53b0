"""Files that are whole or as before."""

import os
import threading
from pathlib import Path

import pytest

from skerry.infra.atomic import exclusive, make_private, write_atomic


def test_the_file_has_the_new_content_and_mode_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    before = os.umask(0o777)
    try:
        (tmp_path / "new").mkdir()
        (tmp_path / "new").chmod(0o700)
        write_atomic(file, b"data", mode=0o640)
    finally:
        os.umask(before)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"data", 0o640)


def test_a_missing_directory_is_made_for_the_owner_only(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "file", b"data")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write_atomic(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_is_replaced_and_its_target_left(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"theirs")
    link.symlink_to(target)
    write_atomic(link, b"ours")
    assert (target.read_bytes(), link.read_bytes(), link.is_symlink()) == (
        b"theirs",
        b"ours",
        False,
    )


def test_only_one_at_a_time_is_in_the_block(tmp_path: Path) -> None:
    entered = threading.Event()

    def second() -> None:
        with exclusive(tmp_path):
            entered.set()

    with exclusive(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        assert not entered.wait(0.05)
    other.join(60)
    assert entered.is_set()


def test_every_missing_directory_above_is_for_the_owner_only(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "c")
    make_private(tmp_path / "a" / "b" / "c")
    for name in ("a", "a/b", "a/b/c"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
