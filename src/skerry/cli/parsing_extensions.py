"""The parsers of the commands about prompts, fenced files, plugins and hooks."""

from skerry.cli.options import Add, command, group, output, reach


def files(add: Add) -> None:
    """Adds `skerry files`."""
    add = group(add, "files", "list and trust files that a prompt includes as data only")
    for name, text in (
        ("list", "list these files, with their writers and the reasons"),
        ("show", "print a file and its record"),
        ("trust", "trust the present content of a file"),
    ):
        parser = command(add, name, "files", text)
        if name != "list":
            parser.add_argument("path", metavar="PATH", help="in the workspace")
        if name == "trust":
            parser.add_argument(
                "--hash", metavar="H", help="hash of the content that you read; skips the question"
            )
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        output(reach(parser))
