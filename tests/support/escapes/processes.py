"""Processes outside, their variables and descriptors, and other users of the machine."""

import ctypes
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

Context = dict[str, str]
LIBC = ctypes.CDLL(None, use_errno=True)


def listed(context: Context) -> str | None:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if context["marker"].encode() in words:
                return folder.name
    return None


def signalled(context: Context) -> str | None:
    os.kill(int(context["marker_pid"]), 0)
    return context["marker_pid"]


def signalled_group(context: Context) -> str | None:
    os.killpg(int(context["marker_pid"]), 0)
    return context["marker_pid"]


def opened(context: Context) -> str | None:
    descriptor = os.pidfd_open(int(context["marker_pid"]))
    signal.pidfd_send_signal(descriptor, 0)
    return context["marker_pid"]


def priority(context: Context) -> str | None:
    return str(os.getpriority(os.PRIO_PROCESS, int(context["marker_pid"])))


def scheduled(context: Context) -> str | None:
    return str(os.sched_getaffinity(int(context["marker_pid"])))


def group(context: Context) -> str | None:
    return str(os.getpgid(int(context["marker_pid"])))


def memory(context: Context) -> str | None:
    return str(Path(f"/proc/{context['marker_pid']}/mem").open("rb"))


def environment(context: Context) -> str | None:
    for folder in Path("/proc").iterdir():
        try:
            text = (folder / "environ").read_bytes() if folder.name.isdigit() else b""
        except OSError:
            continue
        if context["environment"].encode() in text:
            return str(folder)
    return None


def own_environment(context: Context) -> str | None:
    return next((name for name, text in os.environ.items() if context["environment"] in text), None)


def descriptors(context: Context) -> str | None:
    """Reads every descriptor that is open besides the standard ones."""
    numbers = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    for number in numbers[3:]:
        try:
            where = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if context["inherited"] in where or not where.startswith(("/proc", "pipe:", "/workspace")):
            return f"{number} {where}"
    return None


def users(context: Context) -> str | None:
    """Looks for the machine's users."""
    names = Path("/etc/passwd").read_text(encoding="utf-8")
    return context["user_name"] if f"{context['user_name']}:" in names else None


def host_name(context: Context) -> str | None:
    return context["host_name"] if socket.gethostname() == context["host_name"] else None


def namespace(kind: str, context: Context) -> str | None:
    """Compares a namespace with that of the machine."""
    ours = os.readlink(f"/proc/self/ns/{kind}")
    return ours if ours == context[f"ns_{kind}"] else None


def many(context: Context) -> str | None:
    del context
    count = sum(1 for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return str(count) if count > 20 else None


PROBES: dict[str, Callable[[Context], "str | None"]] = {
    "process-listed": listed,
    "process-signal": signalled,
    "process-signal-group": signalled_group,
    "process-pidfd": opened,
    "process-priority": priority,
    "process-affinity": scheduled,
    "process-group": group,
    "process-memory": memory,
    "process-environment": environment,
    "process-many": many,
    "own-environment": own_environment,
    "inherited-descriptor": descriptors,
    "users": users,
    "host-name": host_name,
}
for _kind in ("user", "pid", "net", "mnt", "ipc", "uts", "cgroup"):
    PROBES[f"same-namespace-{_kind}"] = partial(namespace, _kind)
