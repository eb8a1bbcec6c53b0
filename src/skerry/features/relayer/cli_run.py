"""Executes the relayer, which imports nothing of the gateway, in the place of this process."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from skerry.config.load import STATE_DIR, locate
from skerry.features.relayer.account import connect


def run(arguments: Namespace) -> int:
    """Executes the relayer with the same words in the place of this process.

    With `init --connect` the exit code is returned: the configuration is the gateway's.
    """
    if arguments.words[:1] == ["init"] and "--connect" in arguments.words:
        return connect(arguments.words[1:])
    return _execute(arguments.words)


def _execute(words: Sequence[str]) -> int:
    """Replaces this process by the relayer; does not return."""
    environment = os.environ | {STATE_DIR: str(locate(os.environ)[0])}
    command = [sys.executable, "-P", "-m", "skerry_relayer", *words]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own program, no shell
