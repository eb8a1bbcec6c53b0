"""The parser of `skerry exec`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output
from skerry.features.exec.modes import ASKS, SECURITIES

_RUN = "skerry.features.exec.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds what `skerry exec` has."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    parser = output(command(add, "check", _RUN, "tell if a command would run unasked; run nothing"))
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    parser.add_argument("--security", choices=SECURITIES, help="as a call that asks for it")
    parser.add_argument("--ask", choices=ASKS, help="as a call that asks for it")
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="read JSON objects, one a line: {id, command, cwd?, security?, ask?}",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="-- CMD",
        help="a command line as one word, or the words of a command",
    )
