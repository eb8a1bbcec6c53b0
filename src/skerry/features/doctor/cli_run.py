"""`skerry doctor`: checks this installation."""

import os
from argparse import Namespace
from functools import partial

import anyio

from skerry.cli.checks import show_checks
from skerry.cli.failure import FAILED
from skerry.features.doctor.examine import examine
from skerry.ports.checks import Level


def run(arguments: Namespace) -> int:
    """Runs `skerry doctor`; returns 1 when a check failed, otherwise 0."""
    checks = anyio.run(partial(examine, fix=arguments.fix), os.environ)
    show_checks(checks, as_json=arguments.json)
    return FAILED if any(check.level is Level.FAILURE for check in checks) else 0
