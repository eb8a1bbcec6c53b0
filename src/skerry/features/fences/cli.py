"""The parser of `skerry files`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_RUN = "skerry.features.fences.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry files`."""
    add = subcommands(group)
    for name, text in (
        ("list", "list the files that are only data, with writers and reasons"),
        ("show", "print a file and its record"),
        ("trust", "trust the present content of a file"),
    ):
        parser = command(add, name, _RUN, text)
        if name != "list":
            parser.add_argument("path", metavar="PATH", help="path in the workspace")
        if name == "trust":
            parser.add_argument(
                "--hash", metavar="H", help="hash of the content that you read; skips the question"
            )
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        output(reach(parser))
