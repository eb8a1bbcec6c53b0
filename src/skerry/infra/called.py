"""Command lines of this program, for remedies that a person copies."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_UNIT: Final = "skerry.service"
"""The systemd unit that `skerry service install` writes."""


def command() -> str:
    """Returns the program part of a command line, as short as it can be typed here."""
    called = Path(sys.argv[0])
    if called.name != "skerry":
        return "python -m skerry"
    shorter = os.path.relpath(called.absolute())
    return shorter if len(shorter) < len(str(called)) else str(called)


def start_command(environ: Mapping[str, str]) -> str:
    """Returns the command that starts the gateway: its service, `make start`, or this program."""
    if environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return f"systemctl --user start {_UNIT}"
    called = Path(sys.argv[0]).absolute()
    if called.match(".venv/bin/skerry") and (called.parents[2] / "Makefile").is_file():
        return "make start"
    return f"{command()} gateway run"
