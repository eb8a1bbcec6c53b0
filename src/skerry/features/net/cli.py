"""The parser of `skerry net`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.net.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the commands of `skerry net`."""
    add = subcommands(parser)
    check = command(
        add, "check", _RUN, "print whether a fetch may reach an address, without a connection"
    )
    _add_source(check)
    check.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="HOST=ADDR",
        help="address of the host name; repeatable",
    )
    fetch = command(add, "fetch", _RUN, "fetch an address like an agent and print the result")
    _add_source(fetch)
    fetch.add_argument("--body", action="store_true", help="print the body, not the result")


def _add_source(parser: ArgumentParser) -> None:
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument("url", nargs="?", metavar="URL")
    selection.add_argument("--stdin", action="store_true", help="read one JSON object per line")
    output(parser)
