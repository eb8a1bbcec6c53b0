"""The parser of `skerry net`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.net.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the commands of `skerry net`."""
    add = subcommands(parser)
    check = command(add, "check", _RUN, "whether a fetch may reach an address; connects to nothing")
    _which(check)
    check.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="HOST=ADDR",
        help="an address that the name has; may be repeated",
    )
    fetch = command(add, "fetch", _RUN, "fetch an address as agents do and show how that ended")
    _which(fetch)
    fetch.add_argument("--body", action="store_true", help="print the body, not the result")


def _which(parser: ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("url", nargs="?", metavar="URL")
    which.add_argument("--stdin", action="store_true", help="read a JSON object a line")
    output(parser)
