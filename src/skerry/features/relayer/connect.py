"""`skerry relayer init --connect`: makes a relayer, an account, and lets the gateway use it."""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.cli.config import change
from skerry.cli.failure import FailedError
from skerry.cli.render import notice
from skerry.config.load import STATE_DIR, load_good, locate
from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.process import ProcessError, Program, run

CONNECT: Final = "--connect"
PLUGIN: Final = "memory-memwal"
URL: Final = "http://127.0.0.1:8000"
"""Address of `skerry relayer serve` without options."""
SECONDS: Final = 60.0
_PROVIDER: Final = "memwal"
_SECRET: Final = Path("secrets") / "memwal.json"


def connect(words: Sequence[str]) -> int:
    """Makes what is missing and changes the configuration; returns the exit code.

    Raises:
        FailedError: the gateway is connected already, or the relayer could not be made.
    """
    parser = ArgumentParser(
        prog="skerry relayer init --connect",
        description="Make a relayer with an account, and let the gateway store memories there.",
    )
    parser.add_argument(CONNECT, action="store_true", help="let the gateway of this machine use it")
    place = "folder of the relayer (default: relayer in the state directory)"
    parser.add_argument("--dir", type=Path, help=place)
    parser.add_argument("--url", default=URL, help=f"address of the relayer (default: {URL})")
    parser.add_argument("--label", default="gateway", help="label of the account")
    given = parser.parse_args(list(words))
    state_dir = locate(os.environ)[0]
    config = load_good(os.environ, fetch=False).config
    entry = config.plugins.entries.get(PLUGIN)
    if entry is not None and entry.config.get("privateKey"):
        raise FailedError(
            f"plugins.entries.{PLUGIN}.config has a key already, so nothing was changed.",
            f"To connect anew: skerry config unset plugins.entries.{PLUGIN}",
        )
    folder = (given.dir or state_dir / "relayer").absolute()
    _relayer(state_dir, "init", "--dir", str(folder))
    account = _relayer(state_dir, "account", "add", "--dir", str(folder), "--label", given.label)
    secret = state_dir / _SECRET
    make_private(secret.parent)
    write_atomic(secret, msgspec.json.encode({"privateKey": account["delegateKey"]}))
    code = change(
        {
            f"secrets.providers.{_PROVIDER}": {"source": "file", "path": str(secret)},
            f"plugins.entries.{PLUGIN}": {
                "config": {
                    "privateKey": {
                        "source": "file",
                        "provider": _PROVIDER,
                        "id": "/privateKey",
                    },
                    "accountId": account["accountId"],
                    "serverUrl": given.url,
                }
            },
            "plugins.slots.memory": PLUGIN,
        }
    )
    if code == 0:
        notice(f"The key of the account is in {secret}; keep a copy of {folder / 'keys'}.")
        notice("Start the relayer: skerry relayer serve. Then look: skerry memwal status")
    return code


def _relayer(state_dir: Path, *words: str) -> dict[str, Any]:
    """Runs a command of the relayer; returns what it prints.

    Raises:
        FailedError: it failed.
    """
    command = [sys.executable, "-P", "-m", "skerry_relayer", *words, "--json"]
    environ: Mapping[str, str] = dict(os.environ) | {STATE_DIR: str(state_dir)}

    async def start() -> bytes:
        done = await run(Program(command, environ), seconds=SECONDS)
        return done.out

    try:
        answer: dict[str, Any] = json.loads(anyio.run(start))
    except (ProcessError, ValueError) as error:
        raise FailedError(
            f"The relayer could not be made: {error}", "Run: skerry relayer init"
        ) from error
    if "error" in answer:
        raise FailedError(f"The relayer could not be made: {answer['error']}", "")
    return answer
