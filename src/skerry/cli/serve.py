"""`skerry gateway run`: runs the gateway. It imports no client, so that it starts sooner."""

import logging
import os
import sys
from argparse import Namespace
from dataclasses import replace
from typing import Any

from skerry.app.serve import main as serve
from skerry.cli.render import notice, plain, styled
from skerry.config.gateway import Bind
from skerry.config.load import Loaded, prepare


def run(arguments: Namespace) -> int:
    """Run `skerry gateway run`; return the exit code."""
    loaded = _with_flags(prepare(os.environ), arguments)
    for issue in loaded.warnings:
        notice(f"{styled('warning:', 'yellow', sys.stderr)} {plain(str(issue))}")
    level = logging.DEBUG if arguments.verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not arguments.verbose:
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # else a line for each model call
    return serve(loaded)


def _with_flags(loaded: Loaded, arguments: Namespace) -> Loaded:
    changes: dict[str, Any] = {}
    if arguments.port is not None:
        changes["port"] = arguments.port
    if arguments.bind is not None:
        changes["bind"] = Bind(arguments.bind)
    gateway = loaded.config.gateway.model_copy(update=changes)
    return replace(loaded, config=loaded.config.model_copy(update={"gateway": gateway}))
