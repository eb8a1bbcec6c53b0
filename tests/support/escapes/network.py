"""Sockets: what listens outside, and families that nothing inside needs."""

import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

Context = dict[str, str]


def connects(host: str, context: Context) -> str | None:
    address = host.replace("HOST", context["address"])
    with socket.create_connection((address, int(context["port"])), timeout=5) as connection:
        return str(connection.getpeername())


def datagram(context: Context) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 53))  # sends nothing; needs a route
        return str(sender.getsockname())


def named(context: Context) -> str | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(context["socket"])
        return context["socket"]


def abstract(context: Context) -> str | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + context["abstract"])
        return context["abstract"]


def listed(context: Context) -> str | None:
    text = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
    return context["abstract"] if context["abstract"] in text else None


def listening(context: Context) -> str | None:
    """Looks for the listener among those of the namespace."""
    port = f":{int(context['port']):04X} "
    return port if port in Path("/proc/net/tcp").read_text(encoding="ascii") else None


def resolves(context: Context) -> str | None:
    del context
    return str(socket.getaddrinfo("example.org", 80))


def interfaces(context: Context) -> str | None:
    del context
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    return ", ".join(others) or None


def family(number: int, kind: int, context: Context) -> str | None:
    """Makes a socket of a family; what the kernel does not have is no way out."""
    del context
    try:
        socket.socket(number, kind, 0).close()
    except OSError as error:
        if error.errno == errno.EPROTONOSUPPORT:
            return "the family is reachable"
        raise
    return "a socket was made"


def exists(path: str, context: Context) -> str | None:
    path = path.replace("AGENT", context["ssh_agent"])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
    return path


PROBES: dict[str, Callable[[Context], "str | None"]] = {
    "tcp-loopback": partial(connects, "127.0.0.1"),
    "tcp-loopback-other": partial(connects, "127.0.0.2"),
    "tcp-any": partial(connects, "0.0.0.0"),  # noqa: S104 - nothing listens here
    "tcp-address": partial(connects, "HOST"),
    "tcp-metadata": lambda _: str(socket.create_connection(("169.254.169.254", 80), timeout=5)),
    "udp-route": datagram,
    "unix-path": named,
    "unix-abstract": abstract,
    "unix-listed": listed,
    "tcp-listed": listening,
    "names": resolves,
    "interfaces": interfaces,
    "raw-socket": lambda _: str(socket.socket(2, 3, 1)),
    "packet-socket": partial(family, 17, 3),
    "vsock": partial(family, 40, 1),
    "alg": partial(family, 38, 5),
    "netlink-audit": lambda _: str(socket.socket(16, 3, 9)),
    "netlink-uevent": lambda _: str(socket.socket(16, 3, 15)),
    "netlink-netfilter": lambda _: str(socket.socket(16, 3, 12)),
    "key": partial(family, 15, 3),
    "bluetooth": partial(family, 31, 3),
    "tipc": partial(family, 30, 1),
    "xdp": partial(family, 44, 3),
    "ssh-agent": partial(exists, "AGENT"),
}
for _path in (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    f"/run/user/{os.getuid()}/bus",
):
    PROBES[f"socket{_path.replace('/', '-').rsplit('.', 1)[0]}"] = partial(exists, _path)
