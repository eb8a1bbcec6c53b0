"""Runs a query of QMD: on its server if that runs, else in a process."""

import logging
from typing import Final

import anyio

from skerry.features.memory.qmd_commands import QmdCommands
from skerry.features.memory.qmd_daemon import QmdDaemon
from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_query import QmdQuery
from skerry.features.memory.qmd_results import Result, answered, printed

logger = logging.getLogger(__name__)

HANGS_SECONDS: Final = 1.0
"""A server that did not answer for so long before the query was cancelled is ended."""


async def ask_qmd(
    commands: QmdCommands, daemon: QmdDaemon | None, ask: QmdQuery, seconds: float
) -> list[Result]:
    """Returns QMD's hits; requests a start of the server for the next query if it does not run.

    Raises:
        QmdError: QMD failed, or did not answer within `seconds`.
    """
    try:
        with anyio.fail_after(seconds):
            if daemon is not None and daemon.ready:
                try:
                    return answered(await _served(daemon, ask))
                except QmdError as error:
                    logger.warning("%s The query goes to a process.", error)
            elif daemon is not None:
                daemon.want(commands.program, commands.home.folder)
            remaining = anyio.current_effective_deadline() - anyio.current_time()
            return printed((await commands.run(ask.arguments(), min(seconds, remaining))).out)
    except TimeoutError:
        raise QmdError(f"QMD did not answer within {seconds:g} s.") from None


async def _served(daemon: QmdDaemon, ask: QmdQuery) -> bytes:
    """Returns the answer of QMD's server, and ends the server if it hangs."""
    begun = anyio.current_time()
    try:
        return await daemon.query(ask.body())
    except anyio.get_cancelled_exc_class():
        waited = anyio.current_time() - begun
        if waited >= HANGS_SECONDS:
            daemon.hangs(f"it did not answer within {waited:.1f} s.")
        raise
