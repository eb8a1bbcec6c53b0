"""Replacing files beneath a directory: whole or not at all, and nowhere else."""

import ctypes
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest

from skerry.infra.rooted_fs import EscapeError, FileRules, Opened, RootedFolder

MOST = 1000


@dataclass(frozen=True)
class Closed:
    """Closes what lies beneath one directory."""

    directory: Path

    def reading(self, opened: Opened) -> str | None:
        return "closed" if opened.path.is_relative_to(self.directory) else None

    writing = reading

    def wrote(self, opened: Opened, data: bytes, kept: bytes | None) -> None:
        pass


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Gives a directory with a file, and a secret beside it."""
    (tmp_path / "secret.txt").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "note.txt").write_bytes(b"note")
    return root


def put(root: Path, path: str, data: bytes = b"new", rules: FileRules | None = None) -> bool:
    return RootedFolder(root, rules).replace(path, lambda _: data, max_bytes=MOST)


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_a_file_is_made_with_its_directories(root: Path) -> None:
    assert put(root, "a/b/c.txt")
    assert (root / "a/b/c.txt").read_bytes() == b"new"
    assert names(root) == {"a", "a/b", "a/b/c.txt", "sub", "note.txt"}


def test_a_file_is_replaced_and_keeps_its_permissions(root: Path) -> None:
    (root / "note.txt").chmod(0o4750)
    assert not put(root, "note.txt")
    found = (root / "note.txt").stat()
    assert ((root / "note.txt").read_bytes(), stat.S_IMODE(found.st_mode)) == (b"new", 0o750)
    assert names(root) == {"sub", "note.txt"}


def test_the_old_content_is_shown_to_the_change_and_its_refusal_leaves_all(root: Path) -> None:
    def refuse(old: bytes | None) -> bytes:
        raise ValueError(old)

    for path, old in (("note.txt", b"note"), ("none.txt", None)):
        with pytest.raises(ValueError, match=str(old)):
            RootedFolder(root).replace(path, refuse, max_bytes=MOST)
    assert names(root) == {"sub", "note.txt"}
    assert (root / "note.txt").read_bytes() == b"note"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/x", "absolute"),
        ("../secret.txt", "climbs out"),
        ("sub/../../secret.txt", "climbs out"),
        ("", "empty"),
        (".", "empty"),
        ("a\0b", "zero byte"),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("up/secret.txt", "symbolic link"),
        ("hard.txt", "hard link"),
        ("pipe", "plain file"),
        ("sub", "plain file"),
        ("locked.txt", "read-only"),
        ("large.txt", "more than 1000 bytes"),
    ],
)
def test_what_is_no_plain_file_of_ours_is_refused(root: Path, path: str, reason: str) -> None:
    (root / "link").symlink_to("note.txt")
    (root / "dangling").symlink_to("../made.txt")
    (root / "up").symlink_to("..")
    os.link(root.parent / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "pipe")
    (root / "locked.txt").write_bytes(b"")
    (root / "locked.txt").chmod(0o444)
    (root / "large.txt").write_bytes(b"x" * (MOST + 1))
    before = names(root.parent)
    with pytest.raises(EscapeError, match=reason):
        put(root, path)
    assert names(root.parent) == before
    assert (root.parent / "secret.txt").read_bytes() == b"secret"


def test_a_socket_is_not_written(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        with pytest.raises(OSError, match="No such device"):
            put(root, "s")


def test_a_closed_place_is_refused_before_a_directory_is_made(root: Path) -> None:
    with pytest.raises(EscapeError, match="closed"):
        put(root, "hooks/deep/x.py", rules=Closed(root / "hooks"))
    assert names(root) == {"sub", "note.txt"}


def test_a_closed_file_is_not_read(root: Path) -> None:
    closed = RootedFolder(root, Closed(root / "note.txt"))
    with pytest.raises(EscapeError, match="closed"), closed.open("note.txt"):
        pass


def test_rules_see_the_real_place_behind_a_link_to_the_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    with pytest.raises(EscapeError, match="closed"):
        put(tmp_path / "alias", "sub/x", rules=Closed(root / "sub"))


def test_a_file_that_changes_meanwhile_is_left_as_it_is(root: Path) -> None:
    def meddle(_: bytes | None) -> bytes:
        (root / "note.txt").write_bytes(b"of somebody else")
        return b"new"

    with pytest.raises(OSError, match="changed meanwhile"):
        RootedFolder(root).replace("note.txt", meddle, max_bytes=MOST)
    assert (root / "note.txt").read_bytes() == b"of somebody else"
    assert names(root) == {"sub", "note.txt"}


def test_a_file_that_appears_meanwhile_is_left_as_it_is(root: Path) -> None:
    def meddle(_: bytes | None) -> bytes:
        (root / "made.txt").symlink_to("../secret.txt")
        return b"new"

    with pytest.raises(OSError, match="changed meanwhile"):
        RootedFolder(root).replace("made.txt", meddle, max_bytes=MOST)
    assert (root.parent / "secret.txt").read_bytes() == b"secret"


def test_a_directory_that_is_moved_to_a_closed_name_is_noticed(root: Path) -> None:
    def move(_: bytes | None) -> bytes:
        (root / "sub").rename(root / "hooks")
        return b"new"

    with pytest.raises(EscapeError, match="closed"):
        RootedFolder(root, Closed(root / "hooks")).replace("sub/x.py", move, max_bytes=MOST)
    assert names(root) == {"hooks", "note.txt"}


def exchanging(root: Path, done: Event) -> Callable[[], None]:
    """Returns a function that exchanges a directory and a link in one step."""
    rename = ctypes.CDLL(None).renameat2
    here, both = -100, (bytes(root / "deep"), bytes(root / "link"))

    def exchange() -> None:
        while not done.is_set():
            rename(here, both[0], here, both[1], 2)

    return exchange


def test_a_component_that_is_swapped_for_a_link_never_leads_out(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file.txt").write_bytes(b"secret")
    (root / "link").symlink_to(outside)
    (root / "deep").mkdir()
    done, written = Event(), 0
    thread = Thread(target=exchanging(root, done))
    thread.start()
    try:
        for number in range(1000):
            with suppress(EscapeError, OSError):
                put(root, "deep/file.txt", b"%d" % number)
                written += 1
    finally:
        done.set()
        thread.join()
    assert written > 0
    assert names(outside) == {"file.txt"}
    assert (outside / "file.txt").read_bytes() == b"secret"


def test_nothing_stays_open(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("note.txt", "sub/new", "sub", "../x", "note.txt/x"):
        with suppress(EscapeError, OSError):
            put(root, path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
