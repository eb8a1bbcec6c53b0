"""The parser of `skerry backup`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.backup.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry backup`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    create = command(add, "create", _RUN, "copy the database, with or without a running gateway")
    listing = command(add, "list", _RUN, "list the backups, newest first")
    verify = command(add, "verify", _RUN, "check the database and its backups for damage")
    verify.add_argument(
        "name", nargs="?", metavar="NAME", help="backup to check, or `current` (default: all)"
    )
    text = "replace the database by a backup; stop the gateway first"
    restore = command(add, "restore", _RUN, text)
    restore.add_argument("name", nargs="?", metavar="NAME", help="backup (default: the newest)")
    restore.add_argument(
        "--no-salvage", action="store_true", help="do not salvage rows of a damaged database"
    )
    restore.add_argument(
        "--yes", action="store_true", help="do not ask when an intact database has newer messages"
    )
    parsers = {"create": create, "list": listing, "verify": verify, "restore": restore}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(parser)
