"""Finds the users of this machine whose processes listen on a port."""

from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOPBACK: Final = frozenset(
    {
        "0100007F",  # 127.0.0.1; each group of four bytes is in the byte order of the CPU
        "7F000001",
        "00000000",
        "0" * 32,  # ::, which takes IPv4 too
        "0000000000000000FFFF00000100007F",
        "00000000000000000000FFFF7F000001",
    }
)
"""Local addresses whose sockets accept connections to 127.0.0.1."""


def listeners(port: int) -> frozenset[int] | None:
    """Returns the user ids of the sockets that accept connections to this port of 127.0.0.1.

    None on a system without /proc/net: only Linux lists every socket with its user.
    """
    user_ids: set[int] = set()
    is_listed = False
    for table in _TABLES:
        try:
            with table.open(encoding="ascii") as lines:
                next(lines, None)
                is_listed = True
                for line in lines:
                    _, local, _, state, _, _, _, uid, *_ = line.split()
                    address, _, number = local.partition(":")
                    if state == _LISTEN and int(number, 16) == port and address in _LOOPBACK:
                        user_ids.add(int(uid))
        except (OSError, ValueError):
            continue
    return frozenset(user_ids) if is_listed else None
