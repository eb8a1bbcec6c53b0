"""The parser of `skerry guard`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.guard.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the commands of `skerry guard`."""
    add = subcommands(parser)
    scan = command(add, "scan", _RUN, "print whether a text looks like instructions to the model")
    fence = command(
        add, "fence", _RUN, "print a text with the fence in which the model reads text from others"
    )
    for part in (scan, fence):
        selection = part.add_mutually_exclusive_group(required=True)
        selection.add_argument("text", nargs="?", metavar="TEXT", help="text to examine")
        selection.add_argument("--stdin", action="store_true", help="read one JSON object per line")
        output(part)
    fence.add_argument("--source", default="text", help="kind of its source, such as web")
