"""The parser of `skerry hooks`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.hooks.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry hooks`."""
    add = subcommands(group)
    for name, text in (
        ("list", "list the hooks and their state"),
        ("info", "show one hook"),
        ("check", "show unmet requirements of the enabled hooks"),
        ("enable", "enable a hook from the next start"),
        ("disable", "disable a hook from the next start"),
    ):
        parser = command(add, name, _RUN, text)
        if name not in {"list", "check"}:
            parser.add_argument("name", metavar="HOOK")
        if name == "enable":
            parser.add_argument("--pin", action="store_true", help="load only the present content")
        output(parser)
