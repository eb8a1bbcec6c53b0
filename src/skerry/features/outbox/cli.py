"""The parser of `skerry outbox`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, whole

PARTS = ("pending", "sending", "unknown", "failed", "sent", "dropped")
"""States of `store.outbox`, so that help does not import it."""
_RUN = "skerry.features.outbox.cli_run"


def add(outbox: ArgumentParser) -> None:
    """Adds the commands of `skerry outbox`."""
    add = outbox.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the undelivered parts of replies")
    listing.add_argument("--state", choices=PARTS, help="only these")
    show = command(
        add, "show", _RUN, "show a part: its text, and the reason why it is not delivered"
    )
    retry = command(add, "retry", _RUN, "send a part again now")
    drop = command(add, "drop", _RUN, "never send a part")
    number = whole(1, 2**53)
    selection = retry.add_mutually_exclusive_group(required=True)
    selection.add_argument(
        "serial", nargs="?", type=number, metavar="PART", help="number of the part"
    )
    selection.add_argument("--all", action="store_true", help="all failed parts")
    for parser in (show, drop):
        parser.add_argument("serial", type=number, metavar="PART", help="its number")
    parsers = {"list": listing, "show": show, "retry": retry, "drop": drop}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(reach(parser))
