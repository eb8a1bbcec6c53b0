"""The parser of `skerry outbox`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

PARTS = ("pending", "sending", "unknown", "failed", "sent", "dropped")
"""As `store.outbox` has the states, which help does without."""
_RUN = "skerry.features.outbox.cli_run"


def add(outbox: ArgumentParser) -> None:
    """Adds what is beneath `skerry outbox`."""
    add = outbox.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "the parts of replies that are not delivered")
    listing.add_argument("--state", choices=PARTS, help="only these")
    shown = command(add, "show", _RUN, "one part: its text, and why it is not delivered")
    retry = command(add, "retry", _RUN, "send a part again, now")
    drop = command(add, "drop", _RUN, "never send a part")
    which = retry.add_mutually_exclusive_group(required=True)
    which.add_argument("serial", nargs="?", type=int, metavar="PART", help="its number")
    which.add_argument("--all", action="store_true", help="every part that failed")
    for parser in (shown, drop):
        parser.add_argument("serial", type=int, metavar="PART", help="its number")
    parsers = {"list": listing, "show": shown, "retry": retry, "drop": drop}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(reach(parser))
