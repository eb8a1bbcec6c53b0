"""The parser of `skerry subagents`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.subagents.cli_run"


def add(subagents: ArgumentParser) -> None:
    """Adds the commands of `skerry subagents`."""
    add = subagents.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list running sub-agents, and those of the last day")
    listing.add_argument("--session", metavar="KEY", help="only sub-agents of this conversation")
    listing.add_argument("--days", type=float, default=1.0, help="days to look back (1)")
    info = command(add, "info", _RUN, "show a sub-agent: state, model, tokens, transcript")
    log = command(add, "log", _RUN, "show the last messages of a sub-agent's session")
    log.add_argument("--limit", type=int, default=50, help="messages (50)")
    send = command(add, "send", _RUN, "send a message to a sub-agent and print its answer")
    kill = command(add, "kill", _RUN, "stop a sub-agent; its report is not announced")
    for parser in (info, log, send, kill):
        parser.add_argument(
            "target", metavar="ID", help="beginning of its id, its key or its label"
        )
    send.add_argument("message", metavar="MESSAGE", help="the message")
    parsers = {"list": listing, "info": info, "log": log, "send": send, "kill": kill}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(reach(parser))
