"""The parser of `skerry heartbeat`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_RUN = "skerry.features.heartbeat.cli_run"


def add(heartbeat: ArgumentParser) -> None:
    """Adds what is beneath `skerry heartbeat`."""
    add = subcommands(heartbeat)
    for name, text in (
        ("status", "which agents check, how often, and what came of it"),
        ("last", "the last check, and why no model was asked"),
        ("enable", "switch the checks on, also after failures"),
        ("disable", "switch the checks of all agents off"),
    ):
        output(reach(command(add, name, _RUN, text)))
