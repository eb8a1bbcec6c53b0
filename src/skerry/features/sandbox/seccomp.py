"""System call filter, as the bytes of a BPF program for the kernel.

All calls are allowed except those listed here and those that are newer than this list.
"""

import errno
import struct
from functools import cache
from itertools import count
from typing import Final

from skerry.features.sandbox.syscalls import ARCHES, LAST, NUMBERS

_INSTRUCTION: Final = struct.Struct("=HBBI")
_LOAD: Final = 0x20
"""Loads a word of `struct seccomp_data`: the call, the machine, or half an argument."""
_EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
ERRNO: Final = 0x00050000
_X32: Final = 0x40000000
"""Bit of the calls of the x32 interface, whose numbers differ."""

REFUSED: Final = (
    "_sysctl",
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "get_mempolicy",
    "init_module",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "memfd_secret",
    "migrate_pages",
    "modify_ldt",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vserver",
)
"""Calls that fail with EPERM."""
MISSING: Final = (
    "clone3",  # its flags are in memory, where a filter cannot read them: libraries use clone
    "io_uring_enter",  # performs other calls without the filter
    "io_uring_register",
    "io_uring_setup",
    "openat2",  # its mode is in memory
)
"""Calls that fail with ENOSYS, so that programs use older calls."""
NAMESPACES: Final = 0x7E020000
"""All bits `CLONE_NEW*` that `clone` takes."""
_SET_IDS: Final = 0o6000
_CREATES: Final = 0o100 | 0o20000000
"""`O_CREAT` and `O_TMPFILE`: without these there is no mode."""
FAMILIES: Final = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6. AF_NETLINK has a separate rule."""
NETLINK: Final = 16
IOCTLS: Final = (0x5412, 0x541C, 0x5423)
"""TIOCSTI and TIOCLINUX put text into a terminal; TIOCSETD loads line discipline drivers."""
_PERSONALITIES: Final = (0, 0xFFFFFFFF)
"""NETLINK_ROUTE requests of Linux."""
MODES: Final = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1} | {
    "mknod": 1,
    "mknodat": 2,
}
"""Argument of each call that is a mode."""
OPENS: Final = {"open": 1, "openat": 2}
"""Argument of each call that is the flags; the mode follows."""


class _Program:
    """Instructions with labels as jump targets; a jump goes forward by at most 255."""

    def __init__(self) -> None:
        self._code: list[tuple[int, str, str, int]] = []
        self._labels: dict[str, int] = {}
        self._names = map(str, count())

    def add(self, code: int, value: int, then: str = "", otherwise: str = "") -> None:
        self._code.append((code, then, otherwise, value))

    def name(self) -> str:
        """Returns an unused label."""
        return next(self._names)

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def load(self, argument: int) -> None:
        """Loads the lower half of an argument: all compared arguments have 32 bits."""
        self.add(_LOAD, _ARGUMENTS + 8 * argument)

    def refuse(self, number: int) -> None:
        """Ends with an error."""
        self.add(_RETURN, ERRNO | number)

    def refuse_if(self, code: int, value: int, number: int) -> None:
        """Ends with an error when the comparison is true."""
        after = self.name()
        self.add(code, value, "", after)
        self.refuse(number)
        self.label(after)

    def bytes(self) -> bytes:
        """Returns the program as the kernel takes it."""
        assembled = bytearray()
        for index, (code, then, otherwise, value) in enumerate(self._code):
            jumps = [self._labels[label] - index - 1 if label else 0 for label in (then, otherwise)]
            assembled += _INSTRUCTION.pack(code, *jumps, value)
        return bytes(assembled)


@cache
def program(machine: str) -> bytes:
    """Returns the filter for a machine, `x86_64` or `aarch64`.

    Raises:
        KeyError: no list of calls exists for that machine.
    """
    numbers, code = NUMBERS[machine], _Program()
    code.add(_LOAD, _ARCH)
    code.add(_EQUAL, ARCHES[machine], "same", "")
    code.add(_RETURN, KILL)
    code.label("same")
    code.add(_LOAD, _NUMBER)
    code.refuse_if(_AT_LEAST, _X32, errno.ENOSYS)
    code.refuse_if(_AT_LEAST, LAST + 1, errno.ENOSYS)
    for name in REFUSED:
        if name in numbers:
            code.refuse_if(_EQUAL, numbers[name], errno.EPERM)
    for name in MISSING:
        code.refuse_if(_EQUAL, numbers[name], errno.ENOSYS)
    for name, argument in MODES.items():
        _rule(code, numbers.get(name), [(argument, _ANY_BIT, _SET_IDS)])
    for name, argument in OPENS.items():
        modes = [(argument, _ANY_BIT, _CREATES), (argument + 1, _ANY_BIT, _SET_IDS)]
        _rule(code, numbers.get(name), modes)
    _rule(code, numbers["clone"], [(0, _ANY_BIT, NAMESPACES)])
    for request in IOCTLS:
        _rule(code, numbers["ioctl"], [(1, _EQUAL, request)])
    for name in ("socket", "socketpair"):
        _families(code, numbers[name])
    _only(code, numbers["personality"], _PERSONALITIES, errno.EPERM)
    code.add(_RETURN, ALLOW)
    return code.bytes()


def _rule(code: _Program, number: int | None, tests: list[tuple[int, int, int]]) -> None:
    """Refuses a call when all tests (argument, comparison, value) are true."""
    if number is None:
        return
    after, reload = code.name(), code.name()
    code.add(_EQUAL, number, "", after)
    for argument, comparison, value in tests:
        code.load(argument)
        code.add(comparison, value, "", reload)
    code.refuse(errno.EPERM)
    code.label(reload)
    code.add(_LOAD, _NUMBER)
    code.label(after)


def _only(code: _Program, number: int, values: tuple[int, ...], error: int) -> None:
    """Refuses a call whose first argument is none of the values."""
    after = code.name()
    code.add(_EQUAL, number, "", after)
    code.load(0)
    for value in values:
        allowed = code.name()
        code.add(_EQUAL, value, "", allowed)
        code.add(_RETURN, ALLOW)
        code.label(allowed)
    code.refuse(error)
    code.label(after)


def _families(code: _Program, number: int) -> None:
    """Allows sockets of the families, and of netlink those that list interfaces."""
    after, otherwise = code.name(), code.name()
    code.add(_EQUAL, number, "", after)
    code.load(0)
    for value in FAMILIES:
        allowed = code.name()
        code.add(_EQUAL, value, "", allowed)
        code.add(_RETURN, ALLOW)
        code.label(allowed)
    code.add(_EQUAL, NETLINK, "", otherwise)
    code.load(2)
    code.add(_EQUAL, 0, "", otherwise)
    code.add(_RETURN, ALLOW)
    code.label(otherwise)
    code.refuse(errno.EAFNOSUPPORT)
    code.label(after)
