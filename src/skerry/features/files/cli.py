"""The parser of `skerry undo`."""

from argparse import ArgumentParser

from skerry.cli.options import output

_RUN = "skerry.features.files.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the options of `skerry undo`."""
    parser.set_defaults(module=_RUN, action="undo", parser=parser)
    parser.add_argument("--list", action="store_true", help="list the changes, undo nothing")
    parser.add_argument(
        "--turn", default="", metavar="ID", help="undo this turn (default: the last)"
    )
    parser.add_argument("--file", default="", metavar="PATH", help="undo all changes of this file")
    parser.add_argument(
        "--session", default="", metavar="KEY", help="only changes of this conversation"
    )
    parser.add_argument("--agent", default="", metavar="ID", help="only changes of this agent")
    output(parser)
