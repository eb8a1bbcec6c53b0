"""`skerry doctor`: checks this installation."""

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

import anyio

from skerry.app.doctor import examine
from skerry.cli.failure import FAILED
from skerry.cli.render import one_line, show, show_json, styled
from skerry.ports.checks import Check, Level

_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "red"}


def run(arguments: Namespace) -> int:
    """Runs `skerry doctor`; returns 1 when something must be mended, else 0."""
    checks = anyio.run(partial(examine, fix=arguments.fix), os.environ)
    show_checks(checks, as_json=arguments.json)
    return FAILED if any(check.level is Level.FAILURE for check in checks) else 0


def show_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    """Prints what was found, each with what helps."""
    if as_json:
        show_json([asdict(check) for check in checks])
        return
    for check in checks:
        _show(check)


def _show(check: Check) -> None:
    mark = styled(f"{check.level.value:8}", _STYLES[check.level])
    show(f"{mark} {check.name}: {one_line(check.message)}")
    if check.remedy:
        show(f"{'':8} Try: {one_line(check.remedy)}")
