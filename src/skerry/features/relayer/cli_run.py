"""Replaces this process by the relayer, which imports nothing of the gateway."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from skerry.config.load import STATE_DIR, locate
from skerry.features.relayer.account import connect


def run(arguments: Namespace) -> int:
    """Replaces this process by the relayer with the same arguments.

    With `init --connect` it returns the exit code, because that changes the gateway's settings.
    """
    if arguments.words[:1] == ["init"] and "--connect" in arguments.words:
        return connect(arguments.words[1:])
    return _execute(arguments.words)


def _execute(words: Sequence[str]) -> int:
    """Replaces this process by the relayer; does not return."""
    environment = os.environ | {STATE_DIR: str(locate(os.environ)[0])}
    command = [sys.executable, "-P", "-m", "skerry_relayer", *words]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own program, no shell
