"""System calls that nothing inside needs, with arguments that change nothing wherever they run.

A call gets out where the kernel looks at its arguments: outside it complains about them.
"""

import ctypes
import errno
import os
import platform
from collections.abc import Callable
from functools import partial

Context = dict[str, str]
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
BAD = 1
"""An address that is none."""
LARGE = 0xFFFFFFF

CALLS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "acct": (163, 89, (BAD,)),
    "add_key": (248, 217, (0, 0, 0, 0, 0)),
    "request_key": (249, 218, (0, 0, 0, 0)),
    "keyctl": (250, 219, (LARGE, 0, 0, 0, 0)),
    "bpf": (321, 280, (LARGE, 0, 0)),
    "perf_event_open": (298, 241, (0, 0, -1, -1, 0)),
    "userfaultfd": (323, 282, (LARGE,)),
    "io_uring_setup": (425, 425, (0, 0)),
    "io_uring_enter": (426, 426, (-1, 0, 0, 0, 0, 0)),
    "io_uring_register": (427, 427, (-1, 0, 0, 0)),
    "init_module": (175, 105, (0, 0, 0)),
    "finit_module": (313, 273, (-1, 0, 0)),
    "delete_module": (176, 106, (0, 0)),
    "kexec_load": (246, 104, (0, LARGE, 0, 0)),
    "swapon": (167, 224, (BAD, LARGE)),
    "swapoff": (168, 225, (BAD,)),
    "reboot": (169, 142, (0, 0, 0, 0)),
    "sethostname": (170, 161, (BAD, -1)),
    "setdomainname": (171, 162, (BAD, -1)),
    "settimeofday": (164, 170, (BAD, 0)),
    "clock_settime": (227, 112, (LARGE, 0)),
    "clock_adjtime": (305, 266, (LARGE, 0)),
    "adjtimex": (159, 171, (0,)),
    "mount": (165, 40, (BAD, BAD, BAD, 0, 0)),
    "umount2": (166, 39, (BAD, 0)),
    "pivot_root": (155, 41, (BAD, BAD)),
    "chroot": (161, 51, (BAD,)),
    "setns": (308, 268, (-1, 0)),
    "unshare": (272, 97, (1,)),
    "open_tree": (428, 428, (-1, BAD, 0)),
    "move_mount": (429, 429, (-1, BAD, -1, BAD, 0)),
    "fsopen": (430, 430, (BAD, 0)),
    "fsconfig": (431, 431, (-1, LARGE, 0, 0, 0)),
    "fsmount": (432, 432, (-1, 0, 0)),
    "fspick": (433, 433, (-1, BAD, 0)),
    "mount_setattr": (442, 442, (-1, BAD, LARGE, 0, 0)),
    "open_by_handle_at": (304, 265, (-1, BAD, 0)),
    "name_to_handle_at": (303, 264, (-1, BAD, 0, 0, 0)),
    "ptrace": (101, 117, (LARGE, 0, 0, 0)),
    "process_vm_readv": (310, 270, (-1, 0, 0, 0, 0, LARGE)),
    "process_vm_writev": (311, 271, (-1, 0, 0, 0, 0, LARGE)),
    "kcmp": (312, 272, (-1, -1, 0, 0, 0)),
    "pidfd_getfd": (438, 438, (-1, 0, 0)),
    "process_madvise": (440, 440, (-1, 0, 0, 0, 0)),
    "quotactl": (179, 60, (LARGE, 0, 0, 0)),
    "quotactl_fd": (443, 443, (-1, LARGE, 0, 0)),
    "syslog": (103, 116, (99, 0, 0)),
    "fanotify_init": (300, 262, (LARGE, 0)),
    "fanotify_mark": (301, 263, (-1, 0, 0, 0, 0)),
    "move_pages": (279, 239, (-1, 0, 0, 0, 0, LARGE)),
    "migrate_pages": (256, 238, (-1, 0, 0, 0)),
    "mbind": (237, 235, (0, 4096, 99, 0, 0, 0)),
    "set_mempolicy": (238, 237, (99, 0, 0)),
    "clone3": (435, 435, (0, 0)),
    "openat2": (437, 437, (-1, BAD, 0, 0)),
    "iopl": (172, 0, (99,)),
    "ioperm": (173, 0, (LARGE, LARGE, 0)),
    "setns-x32": (308 | 0x40000000, 0, (-1, 0)),
    "newer-than-all": (1000, 1000, ()),
}
"""Number on x86_64, number on aarch64 (0 where it has none), arguments."""
NOT_OUTSIDE = {"setns-x32", "newer-than-all"}
"""Calls that are missing outside, too, on most machines."""


def reached(name: str, context: Context) -> str | None:
    del context
    x86, other, arguments = CALLS[name]
    number = x86 if X86 else other
    if not number:
        return None
    words = [ctypes.c_long(argument) for argument in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    code = ctypes.get_errno() if result < 0 else 0
    if code in {errno.EPERM, errno.ENOSYS}:
        return None
    return errno.errorcode.get(code, str(result))


def personality(context: Context) -> str | None:
    """Turns the random placement of programs off."""
    del context
    result = LIBC.syscall(135 if X86 else 92, ctypes.c_ulong(0x0040000))
    return None if result < 0 else str(result)


def key_of_session(context: Context) -> str | None:
    """Asks for the key that the harness has put into the keyring of the session."""
    number = 249 if X86 else 218
    key = LIBC.syscall(number, b"user", context["key"].encode(), None, 0)
    return None if key < 0 else f"key {key}"


def filter_is_there(context: Context) -> str | None:
    del context
    with open("/proc/self/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return None if lines["Seccomp"].strip() == "2" else "no filter"


def rights(context: Context) -> str | None:
    del context
    with open("/proc/self/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    held = {name: lines[name].strip() for name in names if int(lines[name], 16)}
    return str(held) if held else None


def raises_rights(context: Context) -> str | None:
    del context
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    return "capset" if LIBC.capset(header, data) == 0 else None


def terminal(request: int, context: Context) -> str | None:
    """Puts a character into the terminal that is the standard input, or into any other."""
    import fcntl  # noqa: PLC0415 - Unix

    del context
    for path in ("/dev/tty", "/dev/console", "/dev/pts/0", "/proc/self/fd/0"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        fcntl.ioctl(descriptor, request, b"#")
        return path
    return None


PROBES: dict[str, Callable[[Context], "str | None"]] = {
    f"call-{name}": partial(reached, name) for name in CALLS
}
PROBES |= {
    "call-personality": personality,
    "session-key": key_of_session,
    "filter": filter_is_there,
    "rights": rights,
    "raise-rights": raises_rights,
    "terminal-input": partial(terminal, 0x5412),
    "terminal-console": partial(terminal, 0x541C),
}
