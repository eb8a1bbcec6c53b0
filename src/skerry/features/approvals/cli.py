"""The parser of `skerry approvals`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_RUN = "skerry.features.approvals.cli_run"


def add(approvals: ArgumentParser) -> None:
    """Adds what is beneath `skerry approvals`."""
    add = subcommands(approvals)
    listing = command(add, "list", _RUN, "the tool calls that wait for your approval")
    allow = command(add, "allow", _RUN, "allow a call, which then runs once")
    allow.add_argument(
        "--always", action="store_true", help="also allow its pattern to the agent from now on"
    )
    deny = command(add, "deny", _RUN, "deny a call")
    for parser in (allow, deny):
        parser.add_argument("id", metavar="ID", help="its id, or the beginning of it")
    for parser in (listing, allow, deny):
        output(reach(parser))
