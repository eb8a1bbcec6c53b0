"""`skerry relayer init --connect`: creates a relayer and an account, and connects the gateway."""

import json
import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import msgspec

from skerry.cli.config_change import change
from skerry.cli.failure import FailedError
from skerry.cli.render import notice, show, show_json
from skerry.config.load import STATE_DIR, load_good, locate
from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.process import ProcessError, Program, run

CONNECT: Final = "--connect"
PLUGIN: Final = "memory-memwal"
_PORT: Final = 8000
URL: Final = "http://127.0.0.1:8000"
"""Address of `skerry relayer serve` without options."""
SECONDS: Final = 60.0
_PROVIDER: Final = "memwal"
_SECRET: Final = Path("secrets") / "memwal.json"


def connect(words: Sequence[str]) -> int:
    """Creates the missing parts and changes the configuration; returns the exit code.

    Raises:
        FailedError: the gateway is connected already, or the relayer could not be created.
    """
    arguments = _parser().parse_args(list(words))
    state_dir = locate(os.environ)[0]
    config = load_good(os.environ, fetch=False).config
    entry = config.plugins.entries.get(PLUGIN)
    if entry is not None and entry.config.get("privateKey"):
        raise FailedError(
            f"plugins.entries.{PLUGIN}.config has a key already; nothing was changed.",
            f"Before a new connection, run: skerry config unset plugins.entries.{PLUGIN}",
        )
    folder = (arguments.dir or state_dir / "relayer").absolute()
    _relayer(state_dir, "init", "--dir", str(folder))
    account = _relayer(
        state_dir, "account", "add", "--dir", str(folder), "--label", arguments.label
    )
    secret = state_dir / _SECRET
    make_private(secret.parent)
    write_atomic(secret, msgspec.json.encode({"privateKey": account["delegateKey"]}))
    if not arguments.json:
        show(f"The relayer in {folder} has the account {account['accountId']}.")
    values = _values(arguments.url, account, secret)
    code = change(values, quiet=arguments.json)
    if code == 0 and arguments.json:
        public = {name: account[name] for name in ("accountId", "owner", "publicKey")}
        show_json({"dir": str(folder), "secret": str(secret), "changed": list(values), **public})
    elif code == 0:
        notice(f"The key of the account is in {secret}; keep a copy of {folder / 'keys'}.")
        notice(f"Start the relayer: skerry relayer serve{_options(arguments)}")
        notice("Then check: skerry memwal status")
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="skerry relayer init --connect",
        description="Create a relayer with an account, and connect the gateway to it.",
    )
    parser.add_argument(CONNECT, action="store_true", help="connect the gateway of this machine")
    dir_help = "folder of the relayer (default: relayer in the state directory)"
    parser.add_argument("--dir", type=Path, help=dir_help)
    parser.add_argument(
        "--url", type=_url, default=URL, help=f"address of the relayer (default: {URL})"
    )
    parser.add_argument("--label", default="gateway", help="label of the account")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ArgumentTypeError(f"{text!r} is not an address such as {URL}")
    return text.rstrip("/")


def _values(url: str, account: Mapping[str, Any], secret: Path) -> dict[str, Any]:
    """Returns the changes of the configuration."""
    return {
        f"secrets.providers.{_PROVIDER}": {"source": "file", "path": str(secret)},
        f"plugins.entries.{PLUGIN}": {
            "config": {
                "privateKey": {"source": "file", "provider": _PROVIDER, "id": "/privateKey"},
                "accountId": account["accountId"],
                "serverUrl": url,
            }
        },
        "plugins.slots.memory": PLUGIN,
    }


def _options(arguments: Namespace) -> str:
    """Returns the options that `serve` needs for this folder and address."""
    options = f" --dir {shlex.quote(str(arguments.dir.absolute()))}" if arguments.dir else ""
    port = urlsplit(arguments.url).port
    return options if port in {None, _PORT} else f"{options} --port {port}"


def _relayer(state_dir: Path, *words: str) -> dict[str, Any]:
    """Runs a command of the relayer; returns its output.

    Raises:
        FailedError: the command failed.
    """
    command = [sys.executable, "-P", "-m", "skerry_relayer", *words, "--json"]
    environ: Mapping[str, str] = dict(os.environ) | {STATE_DIR: str(state_dir)}

    async def start() -> bytes:
        finished = await run(Program(command, environ), seconds=SECONDS)
        return finished.out

    try:
        answer: dict[str, Any] = json.loads(anyio.run(start))
    except (ProcessError, ValueError) as error:
        raise FailedError(
            f"The relayer could not be created: {error}", "Run: skerry relayer init"
        ) from error
    if "error" in answer:
        raise FailedError(f"The relayer could not be created: {answer['error']}", "")
    return answer
