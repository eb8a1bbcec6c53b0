"""Parses the commands of `skerry relayer` and runs them; failures are one line and exit code 1."""

import json
import os
import sqlite3
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from skerry_relayer import cli_accounts
from skerry_relayer.errors import RelayerError

PORT: Final = 8000
"""Port of the SDKs' local environment."""

Command = Callable[[Namespace], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    Raises:
        SystemExit: after `--help` or wrong usage (code 2).
    """
    parser = make_parser()
    parsed = parser.parse_args(arguments)
    if parsed.run is None:
        parsed.parser.print_help()
        return 0
    try:
        os.umask(0o077)
        result = parsed.run(parsed)
    except KeyboardInterrupt:
        return 130
    except (RelayerError, OSError, sqlite3.Error, ExceptionGroup) as error:
        return _fail(_reason(error), as_json=parsed.json)
    code = 0
    if isinstance(result, tuple):
        result, code = result[0], int(result[1])
    if result is not None:
        sys.stdout.write(_printed(result, as_json=parsed.json) + "\n")
    return code


def _reason(error: Exception) -> str:
    """Returns the text of an error; for an exception group that of its first error.

    Raises the error again if it is not an expected failure of a command.
    """
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, RelayerError | OSError | sqlite3.Error):
        raise error
    return str(error)


def _fail(text: str, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"ok": False, "error": text}) + "\n")
    else:
        sys.stderr.write(f"error: {text}\n")
    return 1


def _printed(result: object, *, as_json: bool) -> str:
    """Returns a result as JSON, or as lines of names and values."""
    if as_json or not isinstance(result, dict):
        return json.dumps(result) if as_json else str(result)
    width = max(map(len, result))
    return "\n".join(
        f"{name:<{width}}  {value}" for name, value in result.items() if value is not None
    )


def make_parser() -> ArgumentParser:
    """Returns the parser of all commands."""
    parser = ArgumentParser(
        prog="skerry relayer",
        description="Serve an encrypted memory that MemWal clients use.",
    )
    parser.set_defaults(run=None, parser=parser, json=False)
    add = parser.add_subparsers(metavar="COMMAND", title="commands").add_parser
    _command(add("init", help="make the folder with its keys"), cli_accounts.init)
    _serve(_command(add("serve", help="serve the memory"), _lazy("run", "serve")))
    account = _group(add("account", help="add, deactivate and reactivate accounts"))
    added = _command(account("add", help="make an account with a first key"), cli_accounts.add)
    added.add_argument("--label", default="", help="label of the account, at most 64 bytes")
    for name, text in (
        ("deactivate", "refuse all keys of an account"),
        ("reactivate", "accept the keys of an account again"),
    ):
        changed = _command(account(name, help=text), cli_accounts.switch)
        changed.add_argument("account", metavar="ACCOUNT", help="id of the account")
        changed.set_defaults(active=name == "reactivate")
    key_server = _command(
        add("key-server", help="run only the key server, for `serve --key-server`"),
        _lazy("key_server"),
    )
    key_server.add_argument(
        "--socket", type=Path, metavar="PATH", help="its socket (default: in the folder of keys)"
    )
    _maintenance_commands(add)
    _keys(_group(add("key", help="add, list and revoke the keys of an account")))
    return parser


def _maintenance_commands(add: Callable[..., ArgumentParser]) -> None:
    rewrapped = _command(
        add("rewrap", help="generate new keys for owners and destroy the old ones"),
        _lazy("rewrap"),
    )
    rewrapped.add_argument("--database", metavar="URL", help="as for `serve` (default: the file)")
    copied = _command(
        add("backup", help="copy the folder; the relayer may run meanwhile"), _lazy("copy")
    )
    copied.add_argument(
        "target", type=Path, metavar="FOLDER", help="folder of the copy, which must not exist yet"
    )
    copied.add_argument(
        "--without-keys",
        action="store_true",
        help="copy no keys; without keys the copy cannot be decrypted",
    )
    examined = _command(add("doctor", help="check the folder"), _lazy("doctor"))
    examined.add_argument(
        "--deep", action="store_true", help="also read every blob and compare its hash"
    )


def _lazy(name: str, module: str = "cli_upkeep") -> Command:
    """Returns a command of a module that is imported when it runs."""

    def run(parsed: Namespace) -> object:
        work: Command = getattr(import_module(f"skerry_relayer.{module}"), name)
        return work(parsed)

    return run


def _keys(key: Callable[..., ArgumentParser]) -> None:
    added = _command(
        key("add", help="make a key, or accept an existing public key"), cli_accounts.grant
    )
    added.add_argument("account", metavar="ACCOUNT", help="id of the account")
    added.add_argument("--label", default="", help="label of the key, at most 64 bytes")
    added.add_argument(
        "--namespace",
        action="append",
        metavar="NS",
        help="restrict the key to this namespace; may be repeated",
    )
    added.add_argument(
        "--public-key", metavar="HEX", help="public key to accept instead of making a new key"
    )
    listed = _command(key("list", help="list accounts and their keys"), cli_accounts.listing)
    listed.add_argument("account", nargs="?", metavar="ACCOUNT", help="only this account")
    revoked = _command(key("revoke", help="refuse a key from now on"), cli_accounts.revoke)
    revoked.add_argument("account", metavar="ACCOUNT", help="id of the account")
    revoked.add_argument("public_key", metavar="PUBKEY", help="public key, 64 hex digits")


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=PORT, help=f"port (default: {PORT})")
    parser.add_argument(
        "--rate-limit",
        choices=("on", "off"),
        help="limit the rate of requests (default: off on loopback)",
    )
    parser.add_argument(
        "--mcp",
        choices=("on", "off"),
        help="answer /api/mcp, whose clients send their private key (default: on on loopback)",
    )
    parser.add_argument(
        "--key-server",
        type=Path,
        metavar="SOCKET",
        help="socket of a key server that runs elsewhere (default: start one)",
    )
    parser.add_argument(
        "--database",
        default="",
        metavar="URL",
        help="postgresql://... with pgvector, which several relayers may share (default: a file)",
    )
    parser.add_argument(
        "--blobs",
        default="",
        metavar="URL",
        help="s3://bucket/prefix, or walrus+https://publisher?aggregator=https://..."
        " (default: a folder)",
    )
    parser.add_argument("--public-url", default="", metavar="URL", help="address behind a proxy")
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="site whose pages may use this relayer; may be repeated",
    )
    parser.add_argument(
        "--model-url",
        default="",
        metavar="URL",
        help="OpenAI-compatible API that extracts facts; its key: SKERRY_RELAYER_MODEL_KEY",
    )
    parser.add_argument("--model", default="", help="name of the model at --model-url")


def _group(parser: ArgumentParser) -> Callable[..., ArgumentParser]:
    parser.set_defaults(parser=parser)
    return parser.add_subparsers(metavar="COMMAND", title="commands").add_parser


def _command(parser: ArgumentParser, run: Command) -> ArgumentParser:
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_folder(),
        help="folder of the relayer (default: relayer in the state directory)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def default_folder() -> Path:
    """Returns `relayer` in the state directory of Skerry."""
    state = os.environ.get("SKERRY_STATE_DIR") or "~/.skerry"
    return Path(state).expanduser() / "relayer"


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65_535):  # noqa: PLR2004 - of TCP
        raise ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
