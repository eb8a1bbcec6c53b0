"""The parser of `skerry mcp`."""

from argparse import REMAINDER, ArgumentParser
from collections.abc import Callable
from typing import Any

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.mcp.cli_run"


def add(mcp: ArgumentParser) -> None:
    """Adds the commands of `skerry mcp`."""
    add = mcp.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the servers, with their state")
    _add_server(add)
    removal = command(add, "remove", _RUN, "remove a server from the configuration")
    trial = command(add, "test", _RUN, "connect to a server, and list its tools")
    tools = command(add, "tools", _RUN, "list the tools of a server, and those held back")
    trust = command(add, "trust", _RUN, "trust new and changed tools of a server")
    trust.add_argument(
        "--tool", action="append", default=[], metavar="NAME", help="only this tool; repeatable"
    )
    trust.add_argument("--yes", action="store_true", help="do not ask")
    for parser in (removal, trial, tools, trust):
        parser.add_argument("server", metavar="NAME", help="name of the server")
    parsers = {"list": listing, "test": trial, "tools": tools, "trust": trust}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(reach(parser))
    removal.set_defaults(action="remove")
    output(removal)


def _add_server(add: Callable[..., Any]) -> None:
    parser = command(add, "add", _RUN, "add a server: a program after --, or an address")
    parser.add_argument("server", metavar="NAME", help="name of the server: a-z, 0-9 and -")
    parser.add_argument("words", nargs=REMAINDER, metavar="-- COMMAND ...", help="the program")
    parser.set_defaults(action="add")
    output(server_options(parser))


def server_options(parser: ArgumentParser) -> ArgumentParser:
    """Adds the settings of a server, which may be before or after its name."""
    parser.add_argument("--url", metavar="URL", help="address of a server")
    parser.add_argument(
        "--transport", choices=("http", "sse"), help="protocol of the address (http)"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="header of each request; repeatable; ${VARIABLE} refers to a variable",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="variable of the program; repeatable; ${VARIABLE} refers to a variable",
    )
    parser.add_argument("--cwd", metavar="FOLDER", help="working directory of the program")
    parser.add_argument("--force", action="store_true", help="replace a server of this name")
    return parser
