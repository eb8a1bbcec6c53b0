"""The parser of `skerry sessions recovered`."""

from skerry.cli.options import Add, command, group, output

_RUN = "skerry.features.sessions.cli_recovered"


def add_recovered(add: Add) -> None:
    """Adds `skerry sessions recovered`."""
    text = "list and restore messages that only transcript files have"
    add = group(add, "recovered", text)
    listing = command(add, "list", _RUN, "list the kept messages")
    taking = command(add, "import", _RUN, "import them; the gateway must be stopped")
    taking.add_argument(
        "name", nargs="?", metavar="SESSION", help="only this session, key or file (default: all)"
    )
    text = "give up unreadable messages; the gateway must be stopped"
    accept = command(add, "accept", _RUN, text)
    which = accept.add_mutually_exclusive_group(required=True)
    text = "message as `list` names it; repeat for more"
    which.add_argument("entries", nargs="*", default=[], metavar="SESSION:NUMBER", help=text)
    which.add_argument("--all", action="store_true", help="all that no transcript file has")
    discard = command(add, "discard", _RUN, "delete kept messages")
    which = discard.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="SESSION", help="of this session, key or file")
    which.add_argument("--all", action="store_true", help="all of them")
    for parser in (listing, taking, accept, discard):
        output(parser)
