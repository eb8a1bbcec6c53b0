"""The parsers of the commands about what agents remember: `skerry memory`."""

from skerry.cli.options import Add, command, output, reach
from skerry.cli.parsing_notes import add_notes


def add_memory(add: Add) -> None:
    """Add `skerry memory`."""
    group = command(add, "memory", None, "what agents remember")
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    _index(add)
    add_notes(add)


def _index(add: Add) -> None:
    status = command(add, "status", "memory_index", "what is indexed, and who answers")
    index = command(add, "index", "memory_index", "bring the index up to what the files say")
    index.add_argument("--force", action="store_true", help="make it anew beside the old one")
    for name, parser in {"status": status, "index": index}.items():
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="whose (default: the default agent's)")
        output(reach(parser))
