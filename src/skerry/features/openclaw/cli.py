"""The parser of `skerry import`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.openclaw.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the arguments of `skerry import`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    text = "import the configuration, workspaces, conversations and credentials of OpenClaw"
    parser = output(command(add, "openclaw", _RUN, text))
    parser.add_argument(
        "directory", nargs="?", default="~/.openclaw", metavar="DIR", help="default ~/.openclaw"
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--apply", action="store_true", help="write the import; without it only preview"
    )
    either.add_argument("--dry-run", action="store_true", help="only preview, as without --apply")
    parser.add_argument(
        "--yes-to",
        action="append",
        default=[],
        metavar="KEY",
        help="import this key, which needs your consent (an address, a path); repeatable",
    )
    parser.add_argument(
        "--mine",
        action="append",
        default=[],
        metavar="KEY",
        help="count the user messages of this conversation as yours, as in main ones; repeatable",
    )
