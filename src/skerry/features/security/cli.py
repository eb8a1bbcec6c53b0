"""The parser of `skerry security`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.security.cli_run"


def add(security: ArgumentParser) -> None:
    """Adds the commands of `skerry security`."""
    add = security.add_subparsers(metavar="COMMAND", title="commands").add_parser
    audit = command(add, "audit", _RUN, "list settings and file modes that expose the installation")
    audit.add_argument("--deep", action="store_true", help="check every file of the state too")
    audit.add_argument("--fix", action="store_true", help="correct the modes of files")
    output(audit)
