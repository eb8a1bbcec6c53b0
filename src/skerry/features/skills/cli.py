"""The parsers of `skerry skills list`, `info` and `check`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_RUN = "skerry.features.skills.cli_run"


def add(skills: ArgumentParser) -> None:
    """Adds the commands of `skerry skills`."""
    add = subcommands(skills)
    listed = command(add, "list", _RUN, "list the skills of an agent and their state")
    listed.add_argument("--eligible", action="store_true", help="only those that can be used")
    info = command(add, "info", _RUN, "show a skill: its source, its requirements, its command")
    info.add_argument("name", metavar="NAME", help="name of the skill")
    check = command(add, "check", _RUN, "name the skills that are not used, with remedies")
    for parser in (listed, info, check):
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        output(reach(parser))
