"""Other users, rights and namespaces, mounts and device nodes."""

import ctypes
import os
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

Context = dict[str, str]
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> str:
    """Calls a function of the C library; returns its name where it succeeds."""
    result = getattr(LIBC, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return f"{name} = {result}"


def becomes_root(context: Context) -> str | None:
    del context
    os.setuid(0)
    return f"uid {os.getuid()}"


def other_group(context: Context) -> str | None:
    del context
    os.setgid(0)
    return f"gid {os.getgid()}"


def other_groups(context: Context) -> str | None:
    del context
    os.setgroups([0, 6, 42])
    return str(os.getgroups())


def raised_limit(context: Context) -> str | None:
    import resource  # noqa: PLC0415 - Unix

    del context
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1, hard + 1))
    return str(hard + 1)


def new_privileges(context: Context) -> str | None:
    del context
    if LIBC.prctl(38, 0, 0, 0, 0) == 0 and LIBC.prctl(39, 0, 0, 0, 0) == 0:
        return "PR_SET_NO_NEW_PRIVS is off"
    return None


def set_user_program(context: Context) -> str | None:
    """Runs the program of root that the harness has placed with the set-user bit."""
    path = context["workspace"] + "/set-user-id"
    out = subprocess.run([path, "-u"], capture_output=True, text=True, check=True).stdout.strip()
    return out if out != str(os.getuid()) else None


def own_set_user(make: Callable[[Path], None], context: Context) -> str | None:
    """Makes a file with the set-user bit, which may be root's outside."""
    path = Path(context["workspace"], "made-set-user-id")
    make(path)
    mode = path.stat().st_mode
    path.unlink()
    return oct(mode) if mode & (stat.S_ISUID | stat.S_ISGID) else None


def _chmod(path: Path) -> None:
    path.touch()
    path.chmod(0o4755)


def _chmod_group(path: Path) -> None:
    path.touch()
    path.chmod(0o2755)


def _fchmod(path: Path) -> None:
    with path.open("w") as file:
        os.fchmod(file.fileno(), 0o4755)


def _open(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))


def _mknod(path: Path) -> None:
    os.mknod(path, 0o4755 | stat.S_IFREG)


def _fchmodat2(path: Path) -> None:
    path.touch()
    if LIBC.syscall(452, -100, str(path).encode(), 0o4755, 0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def file_rights(context: Context) -> str | None:
    path = Path(context["workspace"], "rights")
    path.touch()
    data = bytes.fromhex("0100000200040000000000000000000000000000")
    os.setxattr(path, "security.capability", data)
    return str(path)


def mounts(kind: str, source: str, target: str, flags: int, context: Context) -> str | None:
    target = target.replace("WORKSPACE", context["workspace"])
    if kind == "bind":
        return call("mount", source.encode(), target.encode(), None, ctypes.c_ulong(flags), None)
    words = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    return call("mount", *words)


def unmounts(target: str, context: Context) -> str | None:
    target = target.replace("WORKSPACE", context["workspace"])
    return call("umount2", target.encode(), 2)


def namespace(flag: int, context: Context) -> str | None:
    del context
    return call("unshare", flag)


def cloned(flag: int, context: Context) -> str | None:
    """Calls clone with a new namespace; a child ends at once."""
    del context
    result = LIBC.syscall(56 if os.uname().machine == "x86_64" else 220, flag | 17, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return f"child {result}"


def enters(kind: str, context: Context) -> str | None:
    del context
    for pid in (1, os.getppid()):
        try:
            descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        except OSError:
            continue
        return call("setns", descriptor, 0)
    return None


def changes_root(context: Context) -> str | None:
    """Leaves by chroot and `..`, the oldest way."""
    Path(context["workspace"], "jail").mkdir(exist_ok=True)
    os.chroot(Path(context["workspace"], "jail"))
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return str(os.listdir("/"))


def pivots(context: Context) -> str | None:
    del context
    number = 155 if os.uname().machine == "x86_64" else 41
    return "pivot_root" if LIBC.syscall(number, b".", b".") == 0 else None


def node(kind: int, context: Context) -> str | None:
    path = Path(context["workspace"], "node")
    os.mknod(path, kind | 0o600, os.makedev(1, 3) if kind == stat.S_IFCHR else os.makedev(254, 0))
    path.unlink()
    return str(path)


MADE = {
    "chmod": _chmod,
    "chmod-group": _chmod_group,
    "fchmod": _fchmod,
    "open": _open,
    "mknod": _mknod,
    "fchmodat2": _fchmodat2,
}
FLAGS = {
    "user": 0x10000000,
    "mount": 0x20000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x8000000,
    "uts": 0x4000000,
    "cgroup": 0x2000000,
    "time": 0x80,
}
PROBES: dict[str, Callable[[Context], "str | None"]] = {
    "become-root": becomes_root,
    "become-root-group": other_group,
    "other-groups": other_groups,
    "raise-a-limit": raised_limit,
    "new-privileges": new_privileges,
    "set-user-program": set_user_program,
    "file-rights": file_rights,
    "chroot-break": changes_root,
    "pivot-root": pivots,
    "mknod-character": partial(node, stat.S_IFCHR),
    "mknod-block": partial(node, stat.S_IFBLK),
    "mount-tmpfs": partial(mounts, "tmpfs", "none", "/dev/shm", 0),
    "mount-proc": partial(mounts, "proc", "none", "/dev/shm", 0),
    "mount-sysfs": partial(mounts, "sysfs", "none", "/dev/shm", 0),
    "mount-cgroup": partial(mounts, "cgroup2", "none", "/dev/shm", 0),
    "mount-bind": partial(mounts, "bind", "/dev/shm", "/usr/share", 0x1000),
    "mount-over-closed": partial(mounts, "bind", "/dev/shm", "WORKSPACE/hooks", 0x1000),
    "remount-root": partial(mounts, "bind", "none", "/", 0x20 | 0x1000),
    "remount-usr": partial(mounts, "bind", "none", "/usr", 0x20 | 0x1000),
    "remount-closed": partial(mounts, "bind", "none", "WORKSPACE/hooks", 0x20 | 0x1000),
    "remount-sys": partial(mounts, "bind", "none", "/proc/sys", 0x20 | 0x1000),
    "unmount-closed": partial(unmounts, "WORKSPACE/hooks"),
    "unmount-sys": partial(unmounts, "/proc/sys"),
    "unmount-shm": partial(unmounts, "/dev/shm"),
}
for _name, _make in MADE.items():
    PROBES[f"set-user-by-{_name}"] = partial(own_set_user, _make)
for _name, _flag in FLAGS.items():
    PROBES[f"unshare-{_name}"] = partial(namespace, _flag)
    if _flag != FLAGS["time"]:
        PROBES[f"clone-{_name}"] = partial(cloned, _flag)
for _name in ("mnt", "pid", "net", "user"):
    PROBES[f"enter-{_name}"] = partial(enters, _name)
