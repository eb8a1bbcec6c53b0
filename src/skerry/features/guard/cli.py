"""The parser of `skerry guard`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.guard.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the commands of `skerry guard`."""
    add = subcommands(parser)
    scan = command(add, "scan", _RUN, "whether a text looks as if it instructed the model")
    fence = command(add, "fence", _RUN, "a text of others as the model reads it, between marks")
    for part in (scan, fence):
        which = part.add_mutually_exclusive_group(required=True)
        which.add_argument("text", nargs="?", metavar="TEXT")
        which.add_argument("--stdin", action="store_true", help="read a JSON object a line")
        output(part)
    fence.add_argument("--source", default="text", help="kind of its source, such as web")
