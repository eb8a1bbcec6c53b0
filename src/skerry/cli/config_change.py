"""Changes values of the configuration file, and applies them in a running gateway."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from skerry.cli.failure import complain
from skerry.cli.render import notice, plain, show
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.gateway import LOCK
from skerry.config.load import load, locate
from skerry.config.paths import show_key_path
from skerry.config.redact import JSON
from skerry.config.reload_rules import needs_restart
from skerry.config.write import ConfigAuthor, ConfigWriteResult, set_values
from skerry.infra.atomic import make_private
from skerry.infra.lock import owner
from skerry.model.errors import ClientError, ConfigError, ConfigInvalidError

BY: Final = "skerry config"
_ADMIN: Final = ("operator.admin",)


def change(values: Mapping[str, JSON], *, quiet: bool = False) -> int:
    """Writes values into the file and applies them in a running gateway; returns the exit code.

    `quiet` prints only warnings, for commands that print a result of their own.
    """
    path = config_file()
    try:
        return report_written(set_values(path, values, author=author()), quiet=quiet)
    except ConfigInvalidError as error:
        if not _sound():
            raise
        problems = "; ".join(f"{issue.path}: {issue.message}" for issue in error.issues)
        remedy = " ".join(dict.fromkeys(issue.remedy for issue in error.issues))
        return complain(f"Nothing was changed. {problems}", remedy, "skerry config set")


def _sound() -> bool:
    """Returns True when the present file is valid, so that a refusal is caused by the change."""
    try:
        load(os.environ, fetch=False)
    except ConfigInvalidError:
        return False
    return True


def report_written(result: ConfigWriteResult, *, quiet: bool = False) -> int:
    """Prints the changed keys, and applies them in a running gateway; returns the exit code."""
    if not result.changed:
        if not quiet:
            notice(f"Nothing changed: {result.source.path} is the same as before.")
        return 0
    if not quiet:
        show(f"Changed {', '.join(map(show_key_path, result.changed))} in {result.source.path}.")
    for issue in result.unknown_keys:
        notice(f"warning: {plain(str(issue))}")
    state_dir, _ = locate(os.environ)
    if owner(state_dir / LOCK) is not None:
        anyio.run(_tell, result, quiet)
    return 0


async def _tell(result: ConfigWriteResult, quiet: bool) -> None:  # noqa: FBT001 - called by anyio.run
    """Applies the file in the running gateway, and prints the keys that need a restart."""
    params = {"raw": result.source.raw, "baseHash": result.source.hash}
    try:
        async with GatewayClient(find(os.environ), scopes=_ADMIN) as client:
            answer = await client.request("config.apply", params)
    except (ClientError, ConfigError) as error:
        notice(f"The running gateway uses the change after a restart: {plain(str(error))}")
        return
    own = needs_restart(result.changed)
    due = answer["restart"]
    if not quiet and (due == "none" or not own):
        notice("The running gateway uses it.")
    # Without keys of this change, an earlier change waits for the restart, or the mode `restart`.
    keys = own or answer.get("pendingPaths") or ["earlier changes"]
    if due == "automatic":
        notice(f"The running gateway restarts for {', '.join(keys)} once no run is in progress.")
    elif due == "needed":
        notice(f"The running gateway needs a restart for {', '.join(keys)}.")


def config_file() -> Path:
    """Returns the path of the file; creates its folders."""
    state_dir, path = locate(os.environ)
    make_private(state_dir)
    make_private(path.parent)
    return path


def author() -> ConfigAuthor:
    """Returns the author of changes by this command, for the file."""
    state_dir, _ = locate(os.environ)
    return ConfigAuthor(BY, os.environ, state_dir)
