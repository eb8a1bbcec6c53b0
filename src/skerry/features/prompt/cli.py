"""The parser of `skerry prompt`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, session, subcommands

_RUN = "skerry.features.prompt.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry prompt`."""
    add = subcommands(group)
    showing = command(add, "show", _RUN, "print the system prompt, or the sizes of its parts")
    showing.add_argument(
        "--sizes", action="store_true", help="print the parts: characters, tokens, share"
    )
    output(session(reach(showing)))
