"""Resolves names with the system resolver, without its search domains."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

Resolve = Callable[[str], Awaitable[list[str]]]
"""Returns the IP addresses of a name in the order in which they are tried; empty if it has none.

Raises:
    TimeoutError: no name server answered in time.
"""

SECONDS: Final = 10.0
"""Time limit of one resolution."""
_HOSTS: Final = Path("/etc/hosts")
_HOSTS_BYTES: Final = 1024 * 1024
_THREADS: Final = 16


class SystemResolver:
    """Looks up a name in the hosts file, then at the name servers; at most 16 lookups at a time.

    The query ends with a dot: without it the system appends its search domains to a name that does
    not exist, and returns the addresses of another name.
    """

    def __init__(self, hosts: Path = _HOSTS, seconds: float = SECONDS) -> None:
        self._hosts = hosts
        self._seconds = seconds
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def __call__(self, host: str) -> list[str]:
        """Returns the IP addresses of the name, without duplicates; empty if it has none.

        Raises:
            TimeoutError: no name server answered in time.
        """
        with anyio.fail_after(self._seconds):
            return await anyio.to_thread.run_sync(
                self._addresses, host, abandon_on_cancel=True, limiter=self._threads
            )

    def _addresses(self, host: str) -> list[str]:
        listed = hosts_addresses(self._hosts, host)
        if listed:
            return listed
        try:
            answers = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def hosts_addresses(path: Path, host: str) -> list[str]:
    """Returns the addresses of a name in a hosts file; empty if the file cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_HOSTS_BYTES)
    except OSError:
        return []
    rows = (line.partition("#")[0].lower().split() for line in text.splitlines())
    return list(dict.fromkeys(row[0] for row in rows if host in row[1:]))
