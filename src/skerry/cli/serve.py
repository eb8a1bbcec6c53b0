"""`skerry gateway run`: runs the gateway. Imports no client, to start sooner."""

import logging
import os
import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from skerry.app.build import Outside
from skerry.app.serve import RESTART
from skerry.app.serve import main as serve
from skerry.cli.render import notice, plain, styled
from skerry.config.backup import LAST_GOOD_REMEDY
from skerry.config.check import drop_validator
from skerry.config.gateway import GatewayConfig
from skerry.config.load import STRICT, Loaded, prepare
from skerry.infra.clock import SystemClock
from skerry.infra.heap import few_arenas
from skerry.infra.log import LOGS, Redactor, writing
from skerry.model.errors import ConfigError


def run(arguments: Namespace) -> int:
    """Runs `skerry gateway run`; returns the exit code."""
    few_arenas()
    strict = {STRICT: "1"} if arguments.strict_config else {}
    loaded = _with_flags(prepare({**os.environ, **strict}), arguments)
    if loaded.broken is not None:
        notice(f"{styled('warning:', 'red', sys.stderr)} {plain(str(loaded.broken))}")
        notice("  The last good configuration is used until that is mended.")
        notice(f"  Try: {LAST_GOOD_REMEDY.format(path=loaded.config.path)}")
    for issue in loaded.warnings:
        notice(f"{styled('warning:', 'yellow', sys.stderr)} {plain(str(issue))}")
    if not arguments.verbose:
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # else a line for each model call
    drop_validator()  # before the gateway is built, so that what follows takes its place
    redactor = Redactor()
    folder = loaded.config.state_dir / LOGS
    with writing(folder, redactor, SystemClock(), verbose=arguments.verbose):
        code = serve(loaded, Outside(hide=redactor.set_secrets))
    return start_again() if code == RESTART else code


def start_again() -> int:
    """Replaces this process by a new start of the program, under the same process id.

    No thread and no imported plugin remains. On a failure it returns `RESTART`, with which systemd
    starts it again.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with suppress(OSError):
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - our own command line, no shell
    return RESTART


def _with_flags(loaded: Loaded, arguments: Namespace) -> Loaded:
    changes: dict[str, Any] = {}
    if arguments.port is not None:
        changes["port"] = arguments.port
    if arguments.bind is not None:
        changes["bind"] = arguments.bind
    if not changes:
        return loaded
    # None is a section of a feature that the file does not have; it is not a valid section.
    before = {name: value for name, value in loaded.config.gateway if value is not None}
    try:
        gateway = GatewayConfig.model_validate({**before, **changes})
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        failure = ConfigError(f"--bind: {detail['msg'].removeprefix('Value error, ')}.")
        failure.remedy = "`--bind loopback` listens to this machine only."
        raise failure from None
    return replace(loaded, config=loaded.config.model_copy(update={"gateway": gateway}))
