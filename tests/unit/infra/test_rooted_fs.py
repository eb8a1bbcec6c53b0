"""Files beneath a directory: every way out, every thing that is no plain file, every race."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from skerry.infra.rooted_fs import EscapeError, RootedFolder

SECRET = b"secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Gives a directory with files, and a secret beside it."""
    (tmp_path / "secret.txt").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "note.txt").write_bytes(b"note")
    (root / "sub" / "deep" / "file.txt").write_bytes(b"deep")
    return root


def read(root: Path, path: str) -> bytes:
    with RootedFolder(root).open(path) as file:
        return file.read()


@pytest.mark.parametrize(
    "path", ["note.txt", "./note.txt", "sub/deep/file.txt", "sub//deep/./file.txt"]
)
def test_a_plain_file_is_opened(root: Path, path: str) -> None:
    assert read(root, path) in {b"note", b"deep"}


def test_the_root_itself_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert read(tmp_path / "alias", "note.txt") == b"note"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/passwd", "absolute"),
        ("//etc/passwd", "absolute"),
        ("../secret.txt", "climbs out"),
        ("sub/../../secret.txt", "climbs out"),
        ("sub/..", "climbs out"),
        ("", "empty"),
        (".", "empty"),
        ("./.", "empty"),
        ("note.txt\0.png", "zero byte"),
        ("\0", "zero byte"),
        ("sub", "plain file"),
        ("sub/deep/", "plain file"),
    ],
)
def test_what_leaves_or_is_no_file_is_refused_with_the_reason(
    root: Path, path: str, reason: str
) -> None:
    with pytest.raises(EscapeError, match=reason):
        read(root, path)


def test_a_link_is_refused_as_leaf_and_as_parent_wherever_it_points(root: Path) -> None:
    (root / "leaf").symlink_to(root / "note.txt")
    (root / "out").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "inside").symlink_to("sub")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    for path in (
        *("leaf", "out", "up/secret.txt", "inside/deep/file.txt", "dangling", "dangling/x"),
        *("loop", "loop/x"),
    ):
        with pytest.raises(EscapeError, match="link"):
            read(root, path)


def test_a_file_with_a_second_name_is_refused(root: Path) -> None:
    os.link(root.parent / "secret.txt", root / "hard.txt")
    with pytest.raises(EscapeError, match="hard link"):
        read(root, "hard.txt")


def test_a_pipe_that_nobody_writes_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(EscapeError, match="plain file"):
        read(root, "pipe")


def test_a_socket_is_not_opened(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        with pytest.raises(OSError, match="No such device"):
            read(root, "s")


def test_a_device_is_refused() -> None:
    with pytest.raises(EscapeError, match="plain file"):
        read(Path("/dev"), "null")


@pytest.mark.parametrize("path", ["missing", "sub/missing/x", "x" * 300, "note.txt/x"])
def test_what_is_not_there_is_an_ordinary_error(root: Path, path: str) -> None:
    with pytest.raises(OSError, match=r"No such file|too long|Not a directory"):
        read(root, path)


def forms() -> list[str]:
    """Returns many spellings of the secret beside the root."""
    ups = ["..", "../", ".//..", "sub/../..", "sub/deep/../../..", "./../root/..", "note.txt/../.."]
    ups += [
        "%2e%2e",
        "%2E%2E",
        "..%2f",
        "%252e%252e",
        "..;",
        "\uff0e\uff0e",
        "\u2025",
        "\u2024\u2024",
        "..\u200b",
        ".. ",
    ]
    ups += ["...", "....//", "..\\", "~", "~/..", "$PWD/..", "{..,}", "up", "inside/..", "up/../.."]
    names = [
        "secret.txt",
        "./secret.txt",
        "/secret.txt",
        "SECRET.TXT",
        "secret.txt/",
        "secret.txt\0",
    ]
    names += ["secret%2etxt", "secret.txt#", "secret.txt?", "file:secret.txt"]
    return [f"{up}/{name}" for up in ups for name in names]


def test_no_spelling_reaches_the_secret(root: Path) -> None:
    (root / "up").symlink_to("..")
    (root / "inside").symlink_to("sub")
    absolute = [f"{prefix}{root.parent}/secret.txt" for prefix in ("", "/", "//", "file://")]
    fds = [f"/proc/self/root{root.parent}/secret.txt", "/proc/self/cwd/../secret.txt"]
    tried = [*forms(), *absolute, *fds]
    assert len(tried) > 200
    for path in tried:
        with pytest.raises((EscapeError, OSError)):
            read(root, path)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_stays_open(root: Path) -> None:
    before = open_descriptors()
    for path in ("sub/deep/file.txt", "sub/missing", "sub", "../x", "sub/deep/file.txt/x"):
        with suppress(EscapeError, OSError):
            read(root, path)
    assert open_descriptors() == before


def test_a_component_that_is_swapped_for_a_link_meanwhile_never_leads_out(root: Path) -> None:
    outside = root.parent / "deep"
    outside.mkdir()
    (outside / "file.txt").write_bytes(SECRET)
    (root / "link").symlink_to(outside)
    (root / "deep").mkdir()
    (root / "deep" / "file.txt").write_bytes(b"deep")
    done = Event()

    def swap() -> None:
        while not done.is_set():
            (root / "deep").rename(root / "aside")
            (root / "link").rename(root / "deep")
            (root / "deep").rename(root / "link")
            (root / "aside").rename(root / "deep")

    swapping = Thread(target=swap)
    swapping.start()
    seen: set[bytes | str] = set()
    try:
        for _ in range(3000):
            try:
                seen.add(read(root, "deep/file.txt"))
            except (EscapeError, OSError) as error:
                seen.add(type(error).__name__)
    finally:
        done.set()
        swapping.join()
    assert SECRET not in seen
    assert b"deep" in seen


def test_reading_does_not_change_the_file(root: Path) -> None:
    before = (root / "note.txt").stat()
    read(root, "note.txt")
    after = (root / "note.txt").stat()
    assert (stat.S_IMODE(before.st_mode), before.st_mtime_ns) == (
        stat.S_IMODE(after.st_mode),
        after.st_mtime_ns,
    )


def test_many_files_are_read_with_one_opening_of_a_folder_and_without_what_open_refuses(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "sub" / "two.txt").hardlink_to(tmp_path / "secret.txt")
    (root / "aside").symlink_to(tmp_path)
    os.mkfifo(root / "sub" / "pipe")
    (root / "sub" / "large.txt").write_bytes(b"x" * 9)
    paths = [f"sub/{one}.txt" for one in ("link", "two", "large", "gone")]
    paths += ["sub/pipe", "sub/deep", "sub", "aside/secret.txt", "../secret.txt", "/etc/hostname"]
    opened: list[int] = []
    real = RootedFolder._folders

    def folders(*given: object, **more: object) -> list[int]:
        opened.append(1)
        return real(*given, **more)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(RootedFolder, "_folders", folders)
    many = [f"sub/deep/{number}.txt" for number in range(20)]
    for one in many:
        (root / one).write_bytes(one.encode())
    found = dict(RootedFolder(root).contents([*paths, "note.txt", *many], 8 + 8))
    found.pop("sub/large.txt")
    assert found == {"note.txt": b"note", **{one: one.encode() for one in many}}
    assert not dict(RootedFolder(root).contents(["sub/large.txt"], 8))
    assert len(opened) <= len(paths) + 2
