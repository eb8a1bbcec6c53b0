"""Calls `init` of plugins before their parts are used, and `shutdown` after they were removed."""

import inspect
import logging
from collections.abc import Callable
from typing import Final

from skerry.hooks.runner import HandlerError, Runner, ignore
from skerry.infra.supervise import in_daemon_thread
from skerry.model.errors import PluginError, SkerryError
from skerry.plugins.guarded import GuardedCall
from skerry.plugins.packages import Package
from skerry.sdk.registrations import Registered

logger = logging.getLogger(__name__)

INIT_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 5.0


async def begin(runner: Runner, plugin: str, registered: Registered) -> None:
    """Calls `init` of a plugin, if it has one.

    Raises:
        PluginError: `init` raised an error, or did not return in time.
    """
    if registered.init is None:
        return
    guard = _guard(runner, plugin, "init", registered.init, INIT_SECONDS)
    try:
        await guard.call(None, ignore)
    except HandlerError as error:
        raise PluginError(f"Its init() failed: {error}.", "The log has the reason.") from error


async def end(runner: Runner, plugin: str, registered: Registered) -> None:
    """Calls `shutdown` of a plugin, if it has one; a failure is logged."""
    if registered.shutdown is None:
        return
    guard = _guard(runner, plugin, "shutdown", registered.shutdown, SHUTDOWN_SECONDS)
    try:
        await guard.call(None, ignore)
    except (HandlerError, SkerryError) as error:
        logger.warning("plugin %s: its shutdown() failed: %s", plugin, error)


def drop(registered: Registered, package: Package) -> None:
    """Closes the tables of a removed plugin, and removes its modules."""
    for close in registered.close:
        close()
    package.remove()


def _guard(
    runner: Runner, plugin: str, label: str, function: Callable[[], object], seconds: float
) -> GuardedCall:
    """Returns the function with a guard; a plain function runs in a thread."""

    async def call(_: object) -> object:
        if inspect.iscoroutinefunction(function):
            return await function()
        value = await in_daemon_thread(function, f"{label} {plugin}")
        return await value if inspect.isawaitable(value) else value

    return GuardedCall(runner, plugin, label, call, seconds)
