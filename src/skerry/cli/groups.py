"""The groups of commands in the help, and the commands of features."""

from skerry.cli.options import Add, command
from skerry.infra.features import FEATURES, CommandExtension, Feature

GROUPS = (
    ("talk", ()),
    ("the gateway", ("gateway", "open", "status")),
    ("its state", ()),
    ("people and platforms", ()),
    ("automation", ()),
    ("what agents may do", ()),
    ("what it uses", ()),
    ("this shell", ("completion",)),
)
"""Commands of the kernel by group of the help; commands of features follow in each group."""


def groups() -> list[tuple[str, list[str]]]:
    """Returns all commands by group of the help."""
    return [
        (
            title,
            [*names, *(entry.command for entry in FEATURES if entry.cli and entry.cli[0] == title)],
        )
        for title, names in GROUPS
    ]


def feature(add: Add, entry: Feature, *, whole: bool) -> None:
    """Adds the command of a feature; `whole` imports its parser and adds its subcommands."""
    _, text = entry.cli or ("", "")
    parser = command(add, entry.command, None, text)
    if whole:
        entry.load("cli:add")(parser)
        for other in FEATURES:
            if isinstance(other, CommandExtension) and other.command == entry.command:
                other.load("cli:add")(parser)
