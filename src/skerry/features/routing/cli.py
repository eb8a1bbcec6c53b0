"""The parser of `skerry routing`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.routing.cli_run"


def add(routing: ArgumentParser) -> None:
    """Adds the commands of `skerry routing`."""
    add = routing.add_subparsers(metavar="COMMAND", title="commands").add_parser
    explain = command(
        add, "explain", _RUN, "print the agent that answers a conversation, with the reason"
    )
    explain.add_argument("--channel", required=True, metavar="C", help="platform")
    explain.add_argument("--peer", required=True, metavar="KIND:ID", help="direct, group, channel")
    explain.add_argument("--account", default="default", metavar="A", help="account of the gateway")
    explain.add_argument(
        "--parent", default="", metavar="KIND:ID", help="parent conversation of the thread"
    )
    explain.add_argument("--thread", default="", metavar="ID", help="thread in the conversation")
    explain.add_argument("--guild", default="", metavar="G", help="server of the conversation")
    explain.add_argument(
        "--role", action="append", default=[], metavar="R", help="role of the sender; repeatable"
    )
    explain.add_argument("--team", default="", metavar="T", help="team of the conversation")
    explain.add_argument("--sender", default="", metavar="ID", help="id of the sender")
    output(explain)
