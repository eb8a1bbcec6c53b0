"""The parser of `skerry plugins`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach, subcommands

_LIST = "skerry.features.plugins.cli_list"
_MANAGE = "skerry.features.plugins.cli_manage"
_NEW = "skerry.features.plugins.cli_new"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry plugins`."""
    add = subcommands(group)
    text = "list the plugins with their parts, failures and remedies"
    output(reach(command(add, "list", _LIST, text)))
    for name, text in (
        ("info", "show a plugin, its manifest and its state"),
        ("enable", "enable a plugin; a memory takes the memory slot"),
        ("disable", "disable a plugin"),
        ("remove", "remove the files of an installed plugin"),
    ):
        parser = command(add, name, _MANAGE, text)
        parser.add_argument("name", metavar="ID", help="id of the plugin")
        output(parser)
        if name == "remove":
            parser.add_argument("--data", action="store_true", help="remove its data too")
    text = "copy a folder or a wheel into the state directory, and pin its hash"
    parser = command(add, "install", _MANAGE, text)
    parser.add_argument("source", metavar="PATH", help="folder, .whl file, or a bundled name")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    output(parser)
    text = "list the plugins that cannot be loaded, without running them"
    output(command(add, "doctor", _MANAGE, text))
    new = command(add, "new", _NEW, "create a plugin with a passing test")
    new.add_argument(
        "name", metavar="NAME", help="id and folder name of the plugin: a-z, 0-9, -, _"
    )
    new.add_argument(
        "--dir", default=".", metavar="DIR", help="parent folder (default: the working directory)"
    )
    output(new)
