"""The parser of `skerry update`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.update.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry update`."""
    add = subcommands(group)
    text = "ask the origin of this installation for a newer version; change nothing"
    output(command(add, "check", _RUN, text))
