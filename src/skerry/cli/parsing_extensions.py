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


def plugins(add: Add) -> None:
    """Adds `skerry plugins`."""
    add = group(add, "plugins", "list, install, switch and create plugins")
    text = "list them with their parts, failures and remedies"
    output(reach(command(add, "list", "plugins", text)))
    for name, text in (
        ("info", "show a plugin, its manifest and its state"),
        ("enable", "let a plugin be loaded; a memory gets its slot"),
        ("disable", "let a plugin not be loaded"),
        ("remove", "remove the files of an installed plugin"),
    ):
        parser = command(add, name, "plugin_manage", text)
        parser.add_argument("name", metavar="ID")
        output(parser)
        if name == "remove":
            parser.add_argument("--data", action="store_true", help="remove its data too")
    text = "copy a folder or a wheel into the state directory, and pin its hash"
    parser = command(add, "install", "plugin_manage", text)
    parser.add_argument("source", metavar="PATH", help="folder, .whl file, or a known name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    output(parser)
    text = "list the plugins that cannot be loaded; runs none"
    output(command(add, "doctor", "plugin_manage", text))
    new = command(add, "new", "plugin_new", "create a plugin with a passing test")
    new.add_argument("name", metavar="NAME", help="its id, which names its folder: a-z, 0-9, -, _")
    new.add_argument("--dir", default=".", metavar="DIR", help="where (default: here)")
    output(new)
