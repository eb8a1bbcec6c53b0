"""The filter of system calls: its bytes are run here as the kernel runs them."""

import ctypes
import errno
import json
import os
import struct

import pytest

from skerry.features.sandbox.seccomp import ALLOW, ERRNO, KILL, MISSING, REFUSED, program
from skerry.features.sandbox.seccomp_profile import profile
from skerry.features.sandbox.syscalls import ARCHES, LAST, NUMBERS

MACHINES = sorted(NUMBERS)


def judged(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """Interprets the program for a call; returns the decision of the kernel."""
    words = [arg & 0xFFFFFFFFFFFFFFFF for arg in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, arch or ARCHES[machine], 0, *words)
    code = list(struct.iter_unpack("=HBBI", program(machine)))
    accumulator, index = 0, 0
    while True:
        kind, then, otherwise, value = code[index]
        index += 1
        if kind == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif kind == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[kind]
            index += then if holds else otherwise


@pytest.mark.requirement("sandbox-seccomp")
@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_of_the_list_is_refused(machine: str) -> None:
    for name in REFUSED:
        if name in NUMBERS[machine]:
            assert judged(machine, NUMBERS[machine][name]) == ERRNO | errno.EPERM, name
    for name in MISSING:
        assert judged(machine, NUMBERS[machine][name]) == ERRNO | errno.ENOSYS, name


@pytest.mark.parametrize("machine", MACHINES)
def test_other_machines_and_newer_calls_are_refused(machine: str) -> None:
    assert judged(machine, 0, arch=0x40000003) == KILL
    assert judged(machine, LAST + 1) == ERRNO | errno.ENOSYS
    assert judged(machine, 0x40000000 | 1) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_all_else_is_allowed(machine: str) -> None:
    listed = set(NUMBERS[machine].values())
    for number in range(LAST + 1):
        if number not in listed:
            assert judged(machine, number) == ALLOW, number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "is_allowed"),
    [
        ("clone", (0x11,), True),
        ("clone", (0x10000011,), False),
        ("clone", (0x20000,), False),
        ("socket", (1, 1, 0), True),
        ("socket", (2, 1, 6), True),
        ("socket", (10, 2, 0), True),
        ("socket", (16, 3, 0), True),
        ("socket", (16, 3, 9), False),
        ("socket", (40, 1, 0), False),
        ("socket", (38, 5, 0), False),
        ("socketpair", (1, 1, 0), True),
        ("socketpair", (40, 1, 0), False),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("ioctl", (0, 0xFFFFFFFF00005412), False),
        ("ioctl", (0, 0x541C), False),
        ("fchmodat", (0, 0, 0o755), True),
        ("fchmodat", (0, 0, 0o4755), False),
        ("fchmod", (0, 0o2755), False),
        ("fchmodat2", (0, 0, 0o4755), False),
        ("openat", (0, 0, 0o101, 0o644), True),
        ("openat", (0, 0, 0, 0o4755), True),
        ("openat", (0, 0, 0o101, 0o4755), False),
        ("openat", (0, 0, 0o20200000, 0o6755), False),
        ("mknodat", (0, 0, 0o104755), False),
        ("personality", (0,), True),
        ("personality", (0xFFFFFFFF,), True),
        ("personality", (0x0040000,), False),
    ],
)
def test_arguments_decide(
    machine: str, name: str, arguments: tuple[int, ...], *, is_allowed: bool
) -> None:
    assert (judged(machine, NUMBERS[machine][name], *arguments) == ALLOW) is is_allowed


def test_the_numbers_are_those_of_the_library_here() -> None:
    """Compares with the header where a compiler's are installed: libc has no table of them."""
    machine = os.uname().machine
    libc = ctypes.CDLL(None, use_errno=True)
    # Calls of which the error tells that the number is right, whatever the rights are.
    for name, arguments, number in (
        ("fchmod", (-1, 0), errno.EBADF),
        ("socket", (-1, 1, 0), errno.EAFNOSUPPORT),
        ("ioctl", (-1, 0), errno.EBADF),
        ("openat2", (-1, 0, 0, 0), errno.EINVAL),
        ("io_uring_enter", (-1, 0, 0, 0, 0, 0), errno.EBADF),
        ("quotactl_fd", (-1, 0, 0, 0), errno.EBADF),
    ):
        words = [ctypes.c_long(argument) for argument in arguments]
        assert libc.syscall(ctypes.c_long(NUMBERS[machine][name]), *words) == -1
        assert ctypes.get_errno() in {number, errno.ENOSYS, errno.EPERM}, name


def test_containers_get_the_same_rules() -> None:
    rules = json.loads(profile())["syscalls"]
    plain = {name for rule in rules if not rule["args"] for name in rule["names"]}
    assert {*REFUSED, *MISSING} <= plain
    assert all(rule["action"] == "SCMP_ACT_ERRNO" for rule in rules)
    asked = {name for rule in rules if rule["args"] for name in rule["names"]}
    assert {"clone", "socket", "ioctl", "fchmodat", "openat", "mknodat"} <= asked


@pytest.mark.requirement("sandbox-seccomp")
def test_containers_compare_the_lower_half_of_numbers_of_32_bits() -> None:
    """The kernel ignores the upper half, in which any bit would make a plain comparison fail."""
    for rule in json.loads(profile())["syscalls"]:
        if {*rule["names"]} & {"ioctl", "socket", "socketpair"}:
            first = rule["args"][0]
            assert first["op"] == "SCMP_CMP_MASKED_EQ"
            assert first["value"] == 0xFFFFFFFF
