"""Starts a plugin that runs as a process, and registers its parts."""

import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from skerry.infra.clock import Clock
from skerry.infra.process import Program, allowed
from skerry.infra.supervise import Supervisor
from skerry.model.errors import PluginError
from skerry.plugins.manifest import PluginProcess
from skerry.plugins.remote.parts import add_parts, declared
from skerry.plugins.remote.process import END_SECONDS, RemoteProcess
from skerry.plugins.remote.rpc import RemoteError, RemoteRefusedError
from skerry.plugins.remote.serving import Serving
from skerry.sdk.api import PluginApi
from skerry.sdk.registrations import Registered

API_VERSION: Final = 1
_BASE: Final = re.compile("PATH|HOME|LANG|LC_ALL|TZ")
"""Names of the variables that every process gets."""
_PYTHON: Final = "python3"
"""Program name that is replaced by the Python of the gateway."""


async def start(
    folder: Path,
    declared_process: PluginProcess,
    api: PluginApi,
    supervisor: Supervisor,
    clock: Clock,
) -> RemoteProcess:
    """Starts the process and registers its parts at `api`.

    Raises:
        PluginError: the process cannot be started, or registers an invalid part.
    """
    serving = Serving(api)
    program = Program(
        _command(declared_process), _environ(declared_process, os.environ), folder, END_SECONDS
    )
    process = RemoteProcess(program, supervisor, clock, (serving.answer, serving.note))
    hello = {
        "apiVersion": API_VERSION,
        "id": api.plugin,
        "config": api.config,
        "dataDir": str(api.data_dir),
    }
    try:
        parts = declared(await process.register(hello))
        for event in parts.events:
            serving.add_event(event.name, event.text, event.scope)
        add_parts(api, process, parts)
    except RemoteError as error:
        process.kill()
        raise PluginError(f"Its process failed: {error}.", "Correct it, then reload it.") from error
    except RemoteRefusedError as error:
        process.kill()
        raise PluginError(str(error), error.remedy) from error
    except BaseException:
        process.kill()
        raise
    return process


def begin_and_end(registered: Registered, process: RemoteProcess) -> None:
    """Registers functions that begin and end the process with the plugin."""
    answer: Mapping[str, Any] = process.declared
    if answer.get("init"):
        registered.init = partial(_begin, process)
    registered.shutdown = partial(_end, process, is_called=bool(answer.get("shutdown")))
    registered.close.append(process.kill)


async def _begin(process: RemoteProcess) -> None:
    try:
        await process.call("init", {})
    except RemoteRefusedError as error:
        raise PluginError(str(error), error.remedy) from error


async def _end(process: RemoteProcess, *, is_called: bool) -> None:
    try:
        if is_called and process.pid is not None:
            await process.call("shutdown", {})
    finally:
        process.kill()


def _command(declared_process: PluginProcess) -> list[str]:
    name, *rest = declared_process.command
    return [sys.executable if name == _PYTHON else name, *rest]


def _environ(declared_process: PluginProcess, environ: Mapping[str, str]) -> dict[str, str]:
    named = {name: environ[name] for name in declared_process.env if name in environ}
    return allowed(environ, _BASE) | named
