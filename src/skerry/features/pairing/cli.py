"""The parser of `skerry pairing`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.pairing.cli_run"


def add(pairing: ArgumentParser) -> None:
    """Adds the commands of `skerry pairing`."""
    add = pairing.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the waiting, approved and rejected senders")
    listing.add_argument(
        "channel", nargs="?", metavar="CHANNEL", help="only senders of this platform"
    )
    approve = command(add, "approve", _RUN, "let the sender with a code write in direct chats")
    reject = command(add, "reject", _RUN, "refuse the sender with a code")
    for parser in (approve, reject):
        parser.add_argument(
            "words", nargs="+", metavar="[CHANNEL] CODE", help="platform and code of the list"
        )
    approve.add_argument("--notify", action="store_true", help="notify the sender in the chat")
    approve.add_argument(
        "--owner",
        action="store_true",
        help="this is you: also write the id into commands.ownerAllowFrom",
    )
    remove = command(add, "remove", _RUN, "remove the decision about a sender")
    remove.add_argument("channel", metavar="CHANNEL", help="the platform")
    remove.add_argument("sender", metavar="SENDER", help="id of the sender")
    parsers = {"list": listing, "approve": approve, "reject": reject, "remove": remove}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        parser.add_argument("--account", metavar="ID", help="account of the platform")
        output(reach(parser))
