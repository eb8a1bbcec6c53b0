"""Prints checks of an installation."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from skerry.cli.render import one_line, show, show_json, styled
from skerry.ports.checks import Check, Level

_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "red"}


def show_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    """Prints the results of checks, each with its remedy."""
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
