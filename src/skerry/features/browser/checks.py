"""Check of `skerry doctor`: Chromium exists, its version, and its sandbox."""

import os
from collections.abc import Iterable
from typing import Final

from skerry.features.browser import chromium as program
from skerry.features.browser.config import BrowserConfig
from skerry.infra.process import ProcessError, Program, allowed, run
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation

SUBJECT: Final = "browser"
_SECONDS: Final = 20.0


async def chromium(installation: Installation) -> Iterable[Check]:
    """Returns the version of Chromium, or what is missing; opens no page."""
    section = installation.config.own_section(BrowserConfig) if installation.config else None
    if section is None or not section.enabled:
        return []
    path = program.found(section.executable_path, installation.environ)
    if path is None:
        message = f"{section.executable_path or 'Chromium'} does not exist."
        return [Check(SUBJECT, Level.FAILURE, message, program.MISSING)]
    if os.geteuid() == 0 and not section.no_sandbox:
        message = "Chromium does not start: it has no sandbox as root."
        return [Check(SUBJECT, Level.FAILURE, message, program.ROOT)]
    try:
        command = Program([path, "--version"], allowed(installation.environ))
        finished = await run(command, seconds=_SECONDS)
    except ProcessError as error:
        return [Check(SUBJECT, Level.FAILURE, str(error), program.MISSING)]
    version = finished.out.decode(errors="replace").strip()[:100]
    if finished.code or not version:
        message = f"{path} --version ended with code {finished.code}."
        return [Check(SUBJECT, Level.FAILURE, message, program.MISSING)]
    checks = [Check(SUBJECT, Level.OK, f"{version} ({path}).")]
    if section.no_sandbox:
        message = "Chromium runs without its own sandbox (browser.noSandbox)."
        remedy = "Run the gateway as a user other than root, and unset browser.noSandbox."
        checks.append(Check(SUBJECT, Level.WARNING, message, remedy))
    return checks
