"""The parser of `skerry config`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, subcommands

_RUN = "skerry.features.config.cli_run"
_MIGRATE = "skerry.features.config.cli_migrate"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry config`."""
    add = subcommands(group)

    def action(name: str, text: str) -> ArgumentParser:
        return command(add, name, _RUN, text)

    get = output(action("get", "print the effective values with defaults; hides secrets"))
    get.add_argument("place", metavar="PATH", nargs="?", help="such as agents.list[0].name")
    get.add_argument("--reveal", action="store_true", help="print secrets too")
    change = action("set", "set one value")
    change.add_argument("place", metavar="PATH", help="such as agents.defaults.timeoutSeconds")
    change.add_argument("value", metavar="VALUE", help="JSON5, otherwise a text; - reads stdin")
    change.add_argument(
        "--json", dest="strict", action="store_true", help="refuse a value that is not JSON"
    )
    output(action("unset", "remove one value")).add_argument(
        "place", metavar="PATH", help="such as agents.defaults.timeoutSeconds"
    )
    validate = output(action("validate", "check the file and print all errors"))
    validate.add_argument("file", metavar="FILE", nargs="?", help="file to check instead")
    action("schema", "print the JSON Schema of the file")
    action("edit", "edit the file in $EDITOR; it is checked before it is used")
    action("path", "print the path of the file")
    text = "convert an older file to the keys of this version"
    migrate = output(command(add, "migrate", _MIGRATE, text))
    migrate.add_argument("--apply", action="store_true", help="write the file; the old one is kept")
