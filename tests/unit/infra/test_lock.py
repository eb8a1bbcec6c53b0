"""The lock on a directory, held by real processes."""

import fcntl
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skerry.infra.lock import LockedError, Owner, locked, owner

HOLD = """
import sys
from pathlib import Path
from skerry.infra.lock import locked
with locked(Path(sys.argv[1]), "a note"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Holds the lock in another process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        assert owner(path) == Owner(process.pid, "a note")
        with pytest.raises(LockedError) as caught, locked(path):
            pass
        assert caught.value.owner.pid == process.pid
        assert (
            path.read_text("ascii") == f"{process.pid}\na note\n"
        )  # the refused one left it alone


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert path.read_text("ascii") == f"{process.pid}\na note\n"
        assert owner(path) is None
        with locked(path):
            assert path.stat().st_mode & 0o777 == 0o600


def test_one_that_ends_well_leaves_no_name_behind(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path):
        pass
    assert path.read_bytes() == b""
    assert owner(path) is None


def test_a_failure_in_the_block_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(KeyError), locked(path):
        raise KeyError
    with locked(path):
        pass


def test_asking_for_the_owner_does_not_refuse_one_that_starts(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.05, lambda: fcntl.flock(asking, fcntl.LOCK_UN)).start()
        with locked(path):
            pass


def test_without_a_file_nobody_owns_it(tmp_path: Path) -> None:
    assert owner(tmp_path / "lock") is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_number_in_the_file_is_shown_as_unknown(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path):
        path.write_text("nonsense", "ascii")
        with pytest.raises(LockedError) as caught, locked(path):
            pass
        assert caught.value.owner.pid == 0
