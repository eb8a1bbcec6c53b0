"""The parsers of the commands that look after the state: `skerry backup`, `usage`."""

from skerry.cli.options import Add, command, days, output, reach

SUMS = ("model", "agent", "channel", "purpose", "session", "day")
"""As `store.usage` has them."""


def add_backup(add: Add) -> None:
    """Add `skerry backup`."""
    group = command(add, "backup", None, "make, list, check and restore backups of the database")
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    create = command(add, "create", "backup", "copy the database, while the gateway runs or not")
    listing = command(add, "list", "backup", "the backups that there are, the newest first")
    verify = command(add, "verify", "backup", "look for damage in the database and its backups")
    verify.add_argument("name", nargs="?", metavar="NAME", help="only this one; or `current`")
    text = "put a backup in the place of the database; the gateway must be stopped"
    restore = command(add, "restore", "backup", text)
    restore.add_argument("name", nargs="?", metavar="NAME", help="which (default: the newest)")
    restore.add_argument(
        "--no-salvage", action="store_true", help="take nothing over from a damaged database"
    )
    restore.add_argument(
        "--yes", action="store_true", help="do not ask where a sound database has newer messages"
    )
    parsers = {"create": create, "list": listing, "verify": verify, "restore": restore}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(parser)


def add_recovered(add: Add) -> None:
    """Add `skerry sessions recovered`."""
    text = "messages that transcript files have and the database does not"
    group = command(add, "recovered", None, text)
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", "recovered", "what was found and kept aside")
    taking = command(add, "import", "recovered", "take it in; the gateway must be stopped")
    taking.add_argument("name", nargs="?", metavar="SESSION", help="only of this (default: all)")
    text = "give up messages that cannot be read; the gateway must be stopped"
    accept = command(add, "accept", "recovered", text)
    which = accept.add_mutually_exclusive_group(required=True)
    text = "this one, as `list` names it; repeat for more"
    which.add_argument("entries", nargs="*", default=[], metavar="SESSION:NUMBER", help=text)
    which.add_argument("--all", action="store_true", help="all that no transcript file has")
    discard = command(add, "discard", "recovered", "delete it")
    which = discard.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="SESSION", help="of this session, key or file")
    which.add_argument("--all", action="store_true", help="all of it")
    parsers = {"list": listing, "import": taking, "accept": accept, "discard": discard}
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(parser)


def add_usage(add: Add) -> None:
    """Add `skerry usage`."""
    parser = command(add, "usage", "usage", "what calls of models used, and what they cost")
    parser.add_argument(
        "--days", type=days, default=30, metavar="N", help="the last so many (default: 30)"
    )
    parser.add_argument("--by", choices=SUMS, default="model", help="added up by this")
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    output(reach(parser))


def add_import(add: Add) -> None:
    """Add `skerry import`."""
    group = command(add, "import", None, "bring an installation of another program over")
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    text = "configuration, workspaces, conversations and credentials of OpenClaw"
    parser = output(command(add, "openclaw", "openclaw", text))
    parser.add_argument(
        "directory", nargs="?", default="~/.openclaw", metavar="DIR", help="default ~/.openclaw"
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--apply", action="store_true", help="do it; without it only look")
    either.add_argument("--dry-run", action="store_true", help="only look, as without --apply")
    parser.add_argument(
        "--yes-to",
        action="append",
        default=[],
        metavar="KEY",
        help="take this key, which needs a yes (an address, a path); repeatable",
    )
    parser.add_argument(
        "--mine",
        action="append",
        default=[],
        metavar="KEY",
        help="a conversation of yours, beside each agent's main one; repeatable",
    )
