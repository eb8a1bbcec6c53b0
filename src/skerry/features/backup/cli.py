"""The parser of `skerry backup`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.backup.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds what `skerry backup` has."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    create = command(add, "create", _RUN, "copy the database, while the gateway runs or not")
    listing = command(add, "list", _RUN, "list the backups, the newest first")
    verify = command(add, "verify", _RUN, "look for damage in the database and its backups")
    verify.add_argument("name", nargs="?", metavar="NAME", help="only this one; or `current`")
    text = "put a backup in the place of the database; the gateway must be stopped"
    restore = command(add, "restore", _RUN, text)
    restore.add_argument("name", nargs="?", metavar="NAME", help="backup (default: the newest)")
    restore.add_argument(
        "--no-salvage", action="store_true", help="salvage nothing from a damaged database"
    )
    restore.add_argument(
        "--yes", action="store_true", help="do not ask where a sound database has newer messages"
    )
    parsers = {"create": create, "list": listing, "verify": verify, "restore": restore}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(parser)
