"""Reserves ports, also while no server listens on them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """Reserves a port of 127.0.0.1 for the block.

    A socket is bound to it that never listens, so that the system assigns the port to no process
    that requests any port. A server that binds this port with SO_REUSEADDR, as the gateway does,
    can listen on it at any time.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
