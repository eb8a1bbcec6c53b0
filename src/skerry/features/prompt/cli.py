"""The parser of `skerry prompt`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, session, subcommands

_RUN = "skerry.features.prompt.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds what is beneath `skerry prompt`."""
    add = subcommands(group)
    showing = command(add, "show", _RUN, "print the system prompt, or what its parts cost")
    showing.add_argument(
        "--sizes", action="store_true", help="the parts: characters, tokens, share"
    )
    output(session(reach(showing)))
