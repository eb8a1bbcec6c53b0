"""The parser of `skerry exec`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output
from skerry.features.exec.modes import ASKS, SECURITIES

_RUN = "skerry.features.exec.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry exec`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    parser = output(
        command(add, "check", _RUN, "show the decision on a command, without running it")
    )
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    parser.add_argument("--security", choices=SECURITIES, help="security that the call requests")
    parser.add_argument("--ask", choices=ASKS, help="ask mode that the call requests")
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="read JSON objects, one a line: {id, command, cwd?, security?, ask?}",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="-- CMD",
        help="a command line in quotes, or the words of a command",
    )
