"""Resolves names with the system, without its search domains."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

Resolve = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a name, in the order in which they are tried; none when it has none.

Raises:
    TimeoutError: nothing answered in time.
"""

SECONDS: Final = 10.0
"""Limit of one resolution."""
_HOSTS: Final = Path("/etc/hosts")
_HOSTS_BYTES: Final = 1024 * 1024
_THREADS: Final = 16


class SystemResolver:
    """Asks the hosts file, then the name servers for exactly this name.

    A name is asked with a last dot: without it a resolver appends the search domains of the machine
    to a name that it does not find, and the answer is about another name.
    """

    def __init__(self, hosts: Path = _HOSTS, seconds: float = SECONDS) -> None:
        self._hosts = hosts
        self._seconds = seconds
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def __call__(self, host: str) -> list[str]:
        """Returns the addresses of the name.

        Raises:
            TimeoutError: nothing answered in time.
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
    """Returns the addresses of a name in a hosts file; none where there is no file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_HOSTS_BYTES)
    except OSError:
        return []
    rows = (line.partition("#")[0].lower().split() for line in text.splitlines())
    return list(dict.fromkeys(row[0] for row in rows if host in row[1:]))
