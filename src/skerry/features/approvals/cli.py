"""The parser of `skerry approvals`."""

from argparse import ArgumentParser

from skerry.cli.options import command, group, output, reach, subcommands

_RUN = "skerry.features.approvals.cli_run"
_LIST = "skerry.features.approvals.cli_allowlist"


def add(approvals: ArgumentParser) -> None:
    """Adds the commands of `skerry approvals`."""
    add = subcommands(approvals)
    listing = command(add, "list", _RUN, "list the tool calls that wait for your approval")
    allow = command(add, "allow", _RUN, "allow a call, which then runs once")
    allow.add_argument(
        "--always", action="store_true", help="also allow its pattern permanently for the agent"
    )
    deny = command(add, "deny", _RUN, "deny a call")
    for parser in (allow, deny):
        parser.add_argument("id", metavar="ID", help="its id, or the beginning of the id")
    of_list = group(add, "allowlist", "the commands that run on a host without an approval")
    listed = command(of_list, "list", _LIST, "list the patterns, with their last use")
    added = command(of_list, "add", _LIST, "allow a pattern for an agent, such as 'git status'")
    removed = command(of_list, "remove", _LIST, "remove a pattern")
    for parser in (added, removed):
        parser.add_argument(
            "pattern", metavar="PATTERN", help="words of a command, as one argument"
        )
    for parser in (listed, added, removed):
        text = "agent; '*' means every agent (default: the default agent)"
        parser.add_argument("--agent", metavar="ID", help=text)
    for parser in (listing, allow, deny, listed, added, removed):
        output(reach(parser))
