"""Checks an installation and returns a remedy for each problem."""

import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skerry.client.client import GatewayClient
from skerry.client.discover import URL, find
from skerry.config.gateway import LOCK, AuthMode
from skerry.config.load import Loaded, load, load_good, locate
from skerry.features.doctor import gateway_checks, safety, state, state_files
from skerry.infra.lock import owner
from skerry.model.errors import (
    ConfigInvalidError,
    GatewayRefusedError,
    GatewayUnreachableError,
)
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation, registered

MIN_PYTHON: Final = (3, 11)
LOW_SPACE: Final = 500 * 1024 * 1024
NO_SPACE: Final = 50 * 1024 * 1024


_ANOTHER: Final = (
    "Run this gateway on another port: skerry gateway run --port N, or set gateway.port."
)


async def examine(environ: Mapping[str, str], *, fix: bool = False) -> list[Check]:
    """Returns every check, in the order in which problems should be corrected.

    Changes nothing; with `fix` it corrects the permissions of files that others can read.
    """
    state_dir, path = locate(environ)
    mended = state_files.mend(state_dir, path) if fix else []
    checks = [*mended, _python(), _state_dir(state_dir), _space(state_dir)]
    config = None
    try:
        loaded = load(environ)
    except ConfigInvalidError as error:
        of_gateway = await _running(environ)
        checks += state_files.broken(error, None if of_gateway else _last_good(environ))
        checks += of_gateway
    else:
        config, environ = loaded.config, loaded.expanded.environ
        gateway = config.gateway
        checks += [*state_files.configuration(loaded), _token(loaded)]
        checks += [*safety.secret(gateway), *safety.exposure(gateway)]
        checks.append(await _gateway(environ, loaded))
        checks += await _gateway_results(environ, loaded)
        for agent in config.agents.ids:
            checks.append(safety.fences(config, agent))
        checks.append(safety.conversations(config))
        checks.append(state_files.mirror(state_dir, loaded))
    checks += [state_files.earlier_files(path), *state_files.permissions(state_dir, path)]
    checks.append(safety.log(state_dir))
    checks += [state.database(state_dir), state.recovered(state_dir)]
    installation = Installation(state_dir, environ, config)
    for load_check in registered().checks:
        checks += await load_check()(installation)
    return checks


async def _running(environ: Mapping[str, str]) -> list[Check]:
    """Checks a running gateway when the file is not valid in this environment."""
    try:
        answer = await gateway_checks.gateway_answer(environ)
    except ConfigInvalidError:
        return []
    if answer is None:
        return []
    status = answer.status
    checks = [*state.running(status), *gateway_checks.running(status)]
    if status.get("configuration", {}).get("state") != "last-good":
        message = "a running gateway can use the file, because it has other variables."
        checks.insert(0, Check("gateway", Level.OK, message))
    return [*checks, *gateway_checks.plugins(answer.plugins), *answer.checks]


async def _gateway_results(environ: Mapping[str, str], loaded: Loaded) -> list[Check]:
    """Checks the running gateway, and the plugins also without one."""
    answer = await gateway_checks.gateway_answer(environ)
    if answer is None:
        return list(gateway_checks.plugin_files(loaded.config))
    return [
        *state.running(answer.status),
        *gateway_checks.running(answer.status),
        *gateway_checks.plugins(answer.plugins),
        *answer.checks,
    ]


def _last_good(environ: Mapping[str, str]) -> Loaded | None:
    """Returns the configuration that a gateway would use instead of the broken file."""
    try:
        return load_good(environ)
    except ConfigInvalidError:
        return None


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= MIN_PYTHON:
        return Check("python", Level.OK, version)
    return Check("python", Level.FAILURE, f"{version} is too old.", "Install Python 3.11 or newer.")


def _state_dir(directory: Path) -> Check:
    name = "state directory"
    parent = next(path for path in (directory, *directory.parents) if path.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        remedy = "Change its owner, or set another directory in SKERRY_STATE_DIR."
        return Check(name, Level.FAILURE, f"{parent} cannot be written to.", remedy)
    if parent != directory:
        return Check(name, Level.OK, f"{directory} will be created at the first start.")
    return Check(name, Level.OK, str(directory))


def _space(directory: Path) -> Check:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    message = f"{free // 1024**2} MiB free at {existing}"
    if free >= LOW_SPACE:
        return Check("disk space", Level.OK, message)
    level = Level.WARNING if free >= NO_SPACE else Level.FAILURE
    return Check("disk space", level, message + ".", "Free space: messages are stored there.")


def _token(loaded: Loaded) -> Check:
    auth = loaded.config.gateway.auth
    if auth.mode is AuthMode.NONE:
        message = "none: every program and web page on this machine can control the agents."
        return Check("token", Level.WARNING, message, "Remove gateway.auth.mode.")
    if auth.mode is AuthMode.PASSWORD and not auth.secret:
        remedy = "Set gateway.auth.password, or SKERRY_GATEWAY_PASSWORD for the gateway."
        return Check("token", Level.FAILURE, "no password is set, so a start is refused.", remedy)
    if auth.mode is AuthMode.PASSWORD:
        return Check("token", Level.OK, "clients authenticate with a password.")
    if auth.token is None:
        return Check("token", Level.OK, "the first start creates a token.")
    return Check("token", Level.OK, f"from the {loaded.token_source.value}")


async def _gateway(environ: Mapping[str, str], loaded: Loaded) -> Check:
    address = find(environ)
    try:
        async with GatewayClient(address, scopes=()):
            return Check("gateway", Level.OK, f"running at {address.url}")
    except GatewayRefusedError as error:
        message, remedy = f"{address.url}: {error}", error.remedy
        if owner(loaded.config.state_dir / LOCK) is None and not environ.get(URL):
            message += f" It uses another state directory than {loaded.config.state_dir}."
            remedy += f" {_ANOTHER}"
        return Check("gateway", Level.FAILURE, message, remedy)
    except GatewayUnreachableError as error:
        return _port(loaded.config.gateway.port, str(error))


def _port(port: int, reason: str) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            message = f"port {port} cannot be used: {error.strerror}. {reason}"
            remedy = f"Stop the program that uses the port. {_ANOTHER}"
            return Check("gateway", Level.FAILURE, message, remedy)
    return Check("gateway", Level.OK, f"not running; port {port} is free.", "skerry gateway run")
