"""The parser of `skerry heartbeat`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_RUN = "skerry.features.heartbeat.cli_run"


def add(heartbeat: ArgumentParser) -> None:
    """Adds the commands of `skerry heartbeat`."""
    add = subcommands(heartbeat)
    for name, text in (
        ("status", "show the agents with heartbeats, their intervals and last results"),
        ("last", "show the last heartbeat, or the reason why it called no model"),
        ("enable", "enable heartbeats, also after failures"),
        ("disable", "disable the heartbeats of all agents"),
    ):
        output(reach(command(add, name, _RUN, text)))
