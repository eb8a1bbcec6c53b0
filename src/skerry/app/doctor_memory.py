"""Checks of the memory: whether QMD, where it is to answer, can be run."""

from collections.abc import Mapping
from pathlib import Path

from skerry.app.checks import Check, Level
from skerry.config.root import Config

NAME = "memory qmd"


async def qmd(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Return which QMD, and which Node, would be run; nothing where QMD is not configured."""
    if config.memory.backend != "qmd":
        return []
    # Here, because few have it, and the doctor shall not load it for the others.
    from skerry.memory.qmd_process import QmdError  # noqa: PLC0415
    from skerry.memory.qmd_program import QmdHome, find_program  # noqa: PLC0415

    anywhere = QmdHome(Path("/"))  # nothing is written; the agent's own folder may not be there yet
    try:
        program = await find_program(config.memory.qmd.command, environ, anywhere)
    except QmdError as error:
        message = f"{error} The built-in memory answers instead."
        return [Check(NAME, Level.WARNING, message, error.remedy)]
    runs = f", Node {program.node}" if program.node else ""
    return [Check(NAME, Level.OK, f"{program.path}{runs}")]
