"""System call filter as containers take it: a JSON profile with the same rules."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from skerry.features.sandbox import seccomp

_DENIED: Final = "SCMP_ACT_ERRNO"
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LAST_FAMILY: Final = 64
_LOWER_HALF: Final = 0xFFFFFFFF


@cache
def profile() -> bytes:
    """Returns the profile. Containers skip calls that a machine does not have."""
    rules = [
        _rule(seccomp.REFUSED, _EPERM),
        _rule(seccomp.MISSING, _ENOSYS),
        *(
            _rule([name], _EPERM, _has_flags(argument, bit))
            for name, argument in seccomp.MODES.items()
            for bit in (0o4000, 0o2000)
        ),
        *(
            _rule([name], _EPERM, _has_flags(argument, flag), _has_flags(argument + 1, bit))
            for name, argument in seccomp.OPENS.items()
            for flag in (0o100, 0o20000000)
            for bit in (0o4000, 0o2000)
        ),
        *(_rule(["clone"], _EPERM, _has_flags(0, 1 << bit)) for bit in range(32) if _is_new(bit)),
        *(_rule(["ioctl"], _EPERM, _equal(1, request)) for request in seccomp.IOCTLS),
        _rule(["personality"], _EPERM),
    ]
    for name in ("socket", "socketpair"):
        refused = set(range(_LAST_FAMILY)) - {*seccomp.FAMILIES, seccomp.NETLINK}
        rules += [_rule([name], _EAFNOSUPPORT, _equal(0, family)) for family in sorted(refused)]
        netlink = (_equal(0, seccomp.NETLINK), {"index": 2, "value": 0, "op": "SCMP_CMP_NE"})
        rules.append(_rule([name], _EAFNOSUPPORT, *netlink))
    listed = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": rules,
    }
    return json.dumps(listed).encode()


def _is_new(bit: int) -> bool:
    return bool(seccomp.NAMESPACES >> bit & 1)


def _rule(names: Sequence[str], number: int, *tests: dict[str, Any]) -> dict[str, Any]:
    return {"names": list(names), "action": _DENIED, "errnoRet": number, "args": list(tests)}


def _equal(argument: int, value: int) -> dict[str, Any]:
    """Compares the lower half of an argument: the kernel ignores the rest.

    A plain comparison would let `value` pass with any other bit in the upper half.
    """
    return _masked(argument, _LOWER_HALF, value)


def _has_flags(argument: int, flags: int) -> dict[str, Any]:
    return _masked(argument, flags, flags)


def _masked(argument: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
