"""Resources: what one command can take from all others."""

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

Context = dict[str, str]
MIB = 1 << 20


def forks(context: Context) -> str | None:
    """Counts the processes that can be there at once."""
    children: list[int] = []
    most = int(context["processes"])
    try:
        for _ in range(most + 50):
            child = os.fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return str(len(children)) if len(children) > most else None


def memory(context: Context) -> str | None:
    size = 2 * int(context["memory"])
    held = bytearray(size)
    return str(len(held))


def fills(folder: str, limit: str, context: Context) -> str | None:
    """Writes more than the limit, in files of 8 MiB."""
    most = int(context[limit])
    folder = folder.replace("WORKSPACE", context["workspace"])
    written = 0
    made: list[Path] = []
    try:
        while written <= most:
            path = Path(folder, f"fill-{len(made)}")
            made.append(path)
            with path.open("wb") as file:
                for _ in range(8):
                    file.write(bytes(MIB))
                    file.flush()
                    written += MIB
    finally:
        for path in made:
            with suppress(OSError):
                path.unlink()
    return str(written)


def large_file(context: Context) -> str | None:
    """Writes one file beyond the limit on files."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path = Path(context["workspace"], "large")
    try:
        with path.open("wb") as file:
            file.truncate(int(context["file"]) + 1)
        return str(path.stat().st_size)
    finally:
        path.unlink()


def files(context: Context) -> str | None:
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(context["files"]) + 1)]
    return str(len(opened))


def limit(name: str, most: int, context: Context) -> str | None:
    del context
    hard = resource.getrlimit(getattr(resource, name))[1]
    return None if 0 <= hard <= most else str(hard)


PROBES: dict[str, Callable[[Context], "str | None"]] = {
    "fork-bomb": forks,
    "memory": memory,
    "fill-tmp": partial(fills, "/tmp", "tmp"),
    "fill-shm": partial(fills, "/dev/shm", "tmp"),
    "large-file": large_file,
    "open-files": files,
    "core-files": partial(limit, "RLIMIT_CORE", 0),
    "cpu-time": partial(limit, "RLIMIT_CPU", 3600),
}
