"""Runs a gateway from its socket to its last COMMIT."""

import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import anyio
from msgspec.structs import replace

from skerry import __version__
from skerry.app.banner import greeting
from skerry.app.boot import boot
from skerry.app.build import Outside, open_application
from skerry.app.settings import Settings
from skerry.config.gateway import LOCK, AuthMode
from skerry.config.load import Loaded
from skerry.config.root import Config
from skerry.gateway.listen import Listener
from skerry.gateway.server import create_app
from skerry.gateway.starting import starting
from skerry.hooks.events import GatewayStart
from skerry.infra.lock import owner
from skerry.infra.supervise import ExitWatchdog, first_of
from skerry.model.errors import StateError, StateLockedError

logger = logging.getLogger(__name__)


class PortTakenError(StateError):
    """Another program listens on the gateway's port."""

    code = "state.port_taken"

    def __init__(self, port: int) -> None:
        self.remedy = "Stop it, or choose another port: skerry gateway run --port N"
        super().__init__(f"Port {port} on this machine is used by another program.")


class PortRefusedError(StateError):
    """The system does not allow this user to listen on the gateway's port."""

    code = "state.port_refused"

    def __init__(self, port: int, reason: str) -> None:
        self.remedy = "Choose a port from 1024 on: skerry gateway run --port N"
        super().__init__(f"Port {port} cannot be used: {reason}.")


class AddressRefusedError(StateError):
    """`gateway.bind` names an address that this machine does not have."""

    code = "state.address_refused"
    remedy = "Set gateway.bind to an address of this machine, or to `lan` for all of them."

    def __init__(self, address: str) -> None:
        super().__init__(f"This machine has no address {address}.")


CLOSE_SECONDS: Final = 30.0
"""Limit after the drain: 10 s for cancelled work, 10 s for replies and mirrors, 10 s in reserve."""
LAST_SECONDS: Final = 3.0
"""Limit for the end of the process after its state is closed."""
RESTART: Final = 75
"""Exit code that requests a restart, which systemd's `Restart=on-failure` does.

It is EX_TEMPFAIL of sysexits.h.
"""


def main(loaded: Loaded, outside: Outside | None = None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code.

    The exit code is 0 after an orderly end, and `RESTART` to request a restart.

    Raises:
        StateError: the port, the state directory or its database cannot be used. A later failure
            raises an `ExceptionGroup`.
    """
    outside = outside or Outside()
    outside = replace(outside, leave_within=ExitWatchdog().within)
    return anyio.run(serve, loaded, os.environ, outside, backend_options={"use_uvloop": True})


async def serve(loaded: Loaded, environ: Mapping[str, str], outside: Outside) -> int:
    """Binds the socket, opens the application, serves and drains; returns the exit code."""
    settings = Settings(loaded, environ)
    environ = settings.environ
    code = 1
    try:
        async with AsyncExitStack() as stack:
            stop = stack.enter_context(anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT))
            listening = _bind(settings.config, stack)
            settings.bound(listening[0].getsockname()[1])
            code = await _run(settings, environ, outside, listening, stop)
    finally:
        outside.leave_within(LAST_SECONDS, code)
    return code


async def _run(
    settings: Settings,
    environ: Mapping[str, str],
    outside: Outside,
    listening: Sequence[socket.socket],
    stop: AsyncIterator[signal.Signals],
) -> int:
    async with AsyncExitStack() as stack:
        async with starting(*listening):
            opening = open_application(settings, environ, outside)
            application = await stack.enter_async_context(opening)
        serving = Listener(create_app(application.context), *listening)
        listener = await stack.enter_async_context(serving)
        application.hooks.gateway_start.start(GatewayStart(port=listener.port))
        await boot(application.dispatch, settings.config, application.context.started_ms)
        auth = settings.config.gateway.auth
        # Output that is no terminal may be a journal or a file that other users can read.
        is_seen = settings.is_first and sys.stdout.isatty()
        token = auth.secret if auth.mode is AuthMode.TOKEN and is_seen else None
        gc.collect()
        gc.freeze()  # present objects live until the end: later collections skip them
        text = greeting(await application.context.models.status(), listener.port, token)
        print(text, flush=True)  # noqa: T201 - its user interface
        logger.info("version %s answers on port %d", __version__, listener.port)
        settings.started()
        await first_of(application.restart.wait, partial(anext, aiter(stop)))
        is_restart = application.restart.is_set()
        drain_seconds = settings.config.gateway.drain_seconds
        outside.leave_within(drain_seconds + CLOSE_SECONDS, RESTART if is_restart else 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hurry, stop, tasks.cancel_scope)
            logger.info("restarting" if is_restart else "stopping")
            drain_ms = round(drain_seconds * 1000)
            reason = "The gateway is restarting." if is_restart else "The gateway is stopping."
            application.context.broadcast.shutdown(reason, drain_ms)
            await application.drain()
            tasks.cancel_scope.cancel()
    return RESTART if is_restart else 0


async def _hurry(stop: AsyncIterator[signal.Signals], draining: anyio.CancelScope) -> None:
    """Stops waiting at the second signal."""
    await anext(aiter(stop))
    draining.cancel()


def _bind(config: Config, stack: AsyncExitStack) -> list[socket.socket]:
    """Returns a socket for each address, all on one port; `stack` closes them."""
    port = config.gateway.port
    listening: list[socket.socket] = []
    for address in config.gateway.addresses:
        listening.append(stack.enter_context(_listening(config, address, port)))
        port = listening[0].getsockname()[1]
    return listening


def _listening(config: Config, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family is socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        raise _refusal(config, address, error) from error
    listening.listen(128)
    listening.setblocking(False)  # noqa: FBT003 - the standard library's signature
    return listening


def _refusal(config: Config, address: str, error: OSError) -> StateError:
    port = config.gateway.port
    match error.errno:
        case errno.EADDRNOTAVAIL:
            return AddressRefusedError(address)
        case errno.EADDRINUSE if (running := owner(config.state_dir / LOCK)) is not None:
            # Most likely that gateway uses the port.
            return StateLockedError(str(config.state_dir), running.pid, starting=True)
        case errno.EADDRINUSE:
            return PortTakenError(port)
        case _:
            return PortRefusedError(port, error.strerror or str(error))
