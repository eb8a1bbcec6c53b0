"""Opens a listener in the network namespace of another process, and sends it to the gateway.

`python -m skerry.features.sandbox.network_child PID CHANNEL PORT`. A separate process enters the
namespace, because a process with several threads cannot; the socket keeps the namespace in which it
was created, whichever process accepts its connections.
"""

import ctypes
import fcntl
import os
import socket
import sys
from typing import Final

_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000
_OWNER: Final = 0xB701
"""NS_GET_USERNS of ioctl_ns(2)."""
_FREE_BIND: Final = 15
"""IP_FREEBIND: the address can be bound before the loopback device is up."""
_WAITING: Final = 128


def main(pid: int, channel: int, port: int) -> int:
    """Sends the listener over the socket `channel`."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(network).st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - starts sooner
        return 1  # the listener would be in the namespace of this machine
    try:
        _enter(network, _NEW_NETWORK)
    except PermissionError:
        # An ordinary user has rights over the namespaces that it made, and only within them.
        _enter(fcntl.ioctl(network, _OWNER), _NEW_USER)
        _enter(network, _NEW_NETWORK)
    listener = socket.socket()
    listener.setsockopt(socket.IPPROTO_IP, _FREE_BIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_WAITING)
    with socket.socket(fileno=channel) as answer:
        socket.send_fds(answer, [b"."], [listener.fileno()])
    return 0


def _enter(descriptor: int, kind: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, kind) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
