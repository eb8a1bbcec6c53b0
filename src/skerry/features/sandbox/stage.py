"""Mounts of a sandbox that root prepares, so that no process inside has to be root.

Bubblewrap runs as an unprivileged user, which cannot reach a workspace in a directory of mode
0700, nor write files of root. So a thread creates its own mount namespace, covers `/tmp` there with
a small `tmpfs`, and attaches a copy of each mount of the sandbox. Each copy maps ids: files of the
directory's owner appear as files of that user, and files of that user are stored as the owner's.
Nothing on this machine changes, and the namespace ends with the sandbox.

Source:
    mount_setattr(2), "ID-mapped mounts"; Linux 5.12, of `tmpfs` 6.3, of overlayfs 5.19.

"""

import ctypes
import errno
import os
import stat
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.infra.atomic import make_private
from skerry.infra.process import Program, Worker
from skerry.model.errors import SandboxError

INSIDE_UID: Final = 60_901
"""User and group id inside when the gateway is root: no distribution assigns this number."""
BASE: Final = "/tmp"  # noqa: S108 - a mount point; covered in the new namespace
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR, _UNSHARE = 428, 429, 442, 272
_UNSHARE_ARM: Final = 97
_CLONE_TREE: Final = 1
_EMPTY_PATH: Final = 0x1000
_FROM_EMPTY: Final = 4
_CWD: Final = -100
_NEW_MOUNTS: Final = 0x20000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _MAPPED = 1, 2, 4, 0x100000
_PRIVATE: Final = 0x40000 | 0x4000
_ATTRIBUTES: Final = struct.Struct("QQQQ")
_DETACH: Final = 2
_MAP_SECONDS: Final = 10.0

Owner = tuple[int, int]
"""User and group."""


class Mount(Struct, frozen=True):
    """Opened directory or file to mount, and its path inside."""

    descriptor: int
    target: str
    is_writable: bool = False
    name: str = ""
    """Name in the stage, for a mount that needs a certain name there."""


class Staged(Struct, frozen=True):
    """A mount namespace with the staged mounts."""

    namespace: int
    """Descriptor of the namespace."""
    sources: tuple[str, ...]
    """Path of each mount in the namespace, in order."""


class Maps:
    """User namespaces that map a directory's owner to the user inside; created on first use."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._namespaces: dict[Owner, int] = {}
        self._turn = threading.Lock()

    def of(self, owner: Owner) -> int:
        """Returns the descriptor of the namespace for an owner; blocks for some milliseconds.

        Raises:
            OSError: the kernel refuses the namespace.
        """
        with self._turn:
            if owner not in self._namespaces:
                self._namespaces[owner] = self._make(owner)
            return self._namespaces[owner]

    def close(self) -> None:
        """Closes the descriptors."""
        with self._turn:
            for descriptor in self._namespaces.values():
                os.close(descriptor)
            self._namespaces.clear()

    def _make(self, owner: Owner) -> int:
        worker = Worker(Program(["unshare", "--user", "cat"], self._environ))
        try:
            folder = Path(f"/proc/{worker.pid}")
            own_link, deadline = _link(Path("/proc/self")), time.monotonic() + _MAP_SECONDS
            while _link(folder) in {own_link, ""}:
                if not worker.alive or time.monotonic() > deadline:
                    raise OSError(errno.EPERM, "no user namespace can be created")
                time.sleep(0.001)
            for name, number in zip(("uid_map", "gid_map"), owner, strict=True):
                (folder / name).write_text(f"{number} {INSIDE_UID} 1\n", encoding="ascii")
            return os.open(folder / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            worker.end(0)


def is_needed() -> bool:
    """Returns whether this process is root, so that mounts have to be staged."""
    return os.geteuid() == 0 or os.getuid() == 0


@contextmanager
def staged(mounts: Iterable[Mount], maps: Maps) -> Iterator[Staged]:
    """Stages the mounts for a block; blocks for about a millisecond.

    Raises:
        SandboxError: the kernel, or the file system of a mount, does not support it.
    """
    trees: list[_Tree] = []
    namespace = -1
    try:
        for index, mount in enumerate(mounts):
            trees.append(_tree(mount, f"{BASE}/{mount.name or index}", maps))
        namespace = _namespace(trees)
        yield Staged(namespace, tuple(tree.path for tree in trees))
    except OSError as error:
        raise _unprepared(error) from error
    finally:
        for tree in trees:
            os.close(tree.descriptor)
        if namespace >= 0:
            os.close(namespace)


class _Tree(Struct, frozen=True):
    """A detached mount, and its path in the stage."""

    descriptor: int
    path: str
    is_directory: bool


@contextmanager
def placed(mounts: Sequence[Mount], maps: Maps, folder: Path) -> Iterator[list[Path]]:
    """Mounts copies of the mounts in a folder of this machine for a block; yields their paths.

    A container runtime, a separate process, copies them; its copies outlive the block.

    Raises:
        SandboxError: the kernel, or the file system of a mount, does not support it.
    """
    trees: list[_Tree] = []
    try:
        make_private(folder)
        for index, mount in enumerate(mounts):
            trees.append(_tree(mount, str(folder / str(index)), maps))
            _attach(trees[-1])
        yield [Path(tree.path) for tree in trees]
    except OSError as error:
        raise _unprepared(error) from error
    finally:
        for tree in trees:
            os.close(tree.descriptor)
        unmount(folder)


def unmount(folder: Path) -> None:
    """Unmounts the mounts of `placed` in a folder, and removes the empty folder."""
    for path in folder.iterdir() if folder.is_dir() else ():
        _detach(path)
    with suppress(OSError):
        folder.rmdir()


def _detach(path: Path) -> None:
    """Unmounts a path and removes the empty mount point; skips a path that is still mounted."""
    _library().umount2(str(path).encode(), _DETACH)
    with suppress(OSError):  # the kernel removes no mount point in use
        path.rmdir() if path.is_dir() else path.unlink()


def _unprepared(error: OSError) -> SandboxError:
    return SandboxError(
        f"The folders of the sandbox cannot be prepared: {error.strerror}.",
        "Run the gateway as an ordinary user, or put the workspace on a file system with"
        " ID-mapped mounts (ext4, xfs, btrfs) under Linux 5.12 or newer.",
    )


def _attach(tree: "_Tree") -> None:
    """Makes a mount point and puts the mount there."""
    if tree.is_directory:
        Path(tree.path).mkdir(exist_ok=True)
    else:
        Path(tree.path).touch()
    move = (ctypes.c_int(_CWD), tree.path.encode(), ctypes.c_uint(_FROM_EMPTY))
    _call(_MOVE_MOUNT, ctypes.c_int(tree.descriptor), b"", *move)


def _tree(mount: Mount, path: str, maps: Maps) -> _Tree:
    status = os.fstat(mount.descriptor)
    flags = ctypes.c_uint(_CLONE_TREE | _EMPTY_PATH | os.O_CLOEXEC)
    tree = _call(_OPEN_TREE, ctypes.c_int(mount.descriptor), b"", flags)
    try:
        attributes = _NO_SETUID | _NO_DEVICES | (0 if mount.is_writable else _READ_ONLY)
        try:
            _set(tree, attributes | _MAPPED, maps.of((status.st_uid, status.st_gid)))
        except OSError:
            if not mount.name:
                raise
            _set(tree, attributes, 0)  # a program, which every user may usually read
    except OSError:
        os.close(tree)
        raise
    return _Tree(tree, path, stat.S_ISDIR(status.st_mode))


def _set(tree: int, attributes: int, user_namespace: int) -> None:
    data = _ATTRIBUTES.pack(attributes, 0, 0, user_namespace)
    size = ctypes.c_size_t(len(data))
    _call(_MOUNT_SETATTR, ctypes.c_int(tree), b"", ctypes.c_uint(_EMPTY_PATH), data, size)


def _namespace(trees: list[_Tree]) -> int:
    """Returns a mount namespace with the trees; a new thread creates and enters it."""
    results: list[int | OSError] = []

    def make() -> None:
        try:
            results.append(_filled(trees))
        except OSError as error:
            results.append(error)

    thread = threading.Thread(target=make, name="sandbox-mounts")
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        raise results[0]
    return results[0]


def _filled(trees: list[_Tree]) -> int:
    unshare = _UNSHARE_ARM if os.uname().machine == "aarch64" else _UNSHARE
    _call(unshare, ctypes.c_int(_NEW_MOUNTS))
    _mount(b"none", b"/", None, _PRIVATE, None)
    _mount(b"tmpfs", BASE.encode(), b"tmpfs", 2 | 4, b"mode=0755,size=256k")
    for tree in trees:
        _attach(tree)
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _link(folder: Path) -> str:
    try:
        return str((folder / "ns/user").readlink())
    except OSError:
        return ""


@cache
def _library() -> ctypes.CDLL:
    """Returns the C library, once: loading takes longer than most calls."""
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    library = _library()
    result: int = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _mount(
    source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None
) -> None:
    library = _library()
    if library.mount(source, target, kind, ctypes.c_ulong(flags), data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
