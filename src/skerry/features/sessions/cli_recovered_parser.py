"""The parser of `skerry sessions recovered`."""

from skerry.cli.options import Add, command, group, output

_RUN = "skerry.features.sessions.cli_recovered"


def add_recovered(add: Add) -> None:
    """Adds `skerry sessions recovered`."""
    text = "list and restore messages that only transcript files contain"
    add = group(add, "recovered", text)
    listing = command(add, "list", _RUN, "list the recovered messages")
    import_ = command(add, "import", _RUN, "import the messages; stop the gateway first")
    import_.add_argument(
        "name", nargs="?", metavar="SESSION", help="only this session, key or file (default: all)"
    )
    text = "give up unreadable messages; stop the gateway first"
    accept = command(add, "accept", _RUN, text)
    selection = accept.add_mutually_exclusive_group(required=True)
    text = "message id of `list`; repeatable"
    selection.add_argument("entries", nargs="*", default=[], metavar="SESSION:NUMBER", help=text)
    selection.add_argument(
        "--all", action="store_true", help="all messages without a copy in a transcript file"
    )
    discard = command(add, "discard", _RUN, "delete recovered messages")
    selection = discard.add_mutually_exclusive_group(required=True)
    selection.add_argument(
        "name", nargs="?", metavar="SESSION", help="messages of this session, key or file"
    )
    selection.add_argument("--all", action="store_true", help="all recovered messages")
    for parser in (listing, import_, accept, discard):
        output(parser)
