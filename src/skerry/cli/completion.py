"""`skerry completion`: prints a script with which a shell completes commands and options."""

from argparse import Namespace

import shtab

from skerry.cli.main import make_parser
from skerry.cli.render import show


def run(arguments: Namespace) -> int:
    """Runs `skerry completion SHELL`; returns the exit code."""
    show(shtab.complete(make_parser(), shell=arguments.shell))
    return 0
