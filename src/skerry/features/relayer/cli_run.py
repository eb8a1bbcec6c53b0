"""Executes the relayer, which imports nothing of the gateway, in the place of this process."""

import os
import sys
from argparse import Namespace

from skerry.config.load import STATE_DIR, locate


def run(arguments: Namespace) -> int:
    """Replaces this process by `python -m skerry_relayer` with the same words; does not return."""
    environment = os.environ | {STATE_DIR: str(locate(os.environ)[0])}
    command = [sys.executable, "-P", "-m", "skerry_relayer", *arguments.words]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own program, no shell
