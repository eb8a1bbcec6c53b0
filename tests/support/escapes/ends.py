"""Ways to stay: processes that want to outlive the command. The harness looks whether they do."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial

Context = dict[str, str]


def stays(how: str, context: Context) -> str | None:
    """Starts a process that does not end by itself; getting out is for the harness to see."""
    if os.fork() == 0:
        os.closerange(3, 256)  # the harness waits for the end of the probe's pipe
        if how in {"session", "daemon"}:
            os.setsid()
        if how == "daemon" and os.fork():
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if how == "program":
            os.execv("/bin/sh", ["sh", "-c", "sleep 600; :", context["stayer"]])
        time.sleep(600)
    time.sleep(0.1)
    return None


PROBES: dict[str, Callable[[Context], "str | None"]] = {
    f"stay-{how}": partial(stays, how) for how in ("child", "session", "daemon", "program")
}
