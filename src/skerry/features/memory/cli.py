"""The parsers of the commands about what agents remember: `skerry memory`."""

from argparse import ArgumentTypeError

from skerry.cli.options import Add, command, output, reach
from skerry.features.memory.cli_parsing_notes import add_notes

KINDS = ("turn", "session", "chunking", "language", "cross", "notes", "reply")
"""Kinds of `memory.bench.sets`, repeated so that help needs no import; `reply` is the tool's
result."""
PROFILES = ("best", "openclaw", "classic")
"""Profiles of `skerry_recall.fuse`."""


def add_memory(add: Add) -> None:
    """Adds `skerry memory`."""
    group = command(add, "memory", None, "what agents remember")
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    _index(add)
    add_notes(add)
    _files(add)
    _bench(add)


def _index(add: Add) -> None:
    status = command(add, "status", "memory_index", "show the state of the index and its backend")
    index = command(add, "index", "memory_index", "update the index from the files")
    index.add_argument("--force", action="store_true", help="rebuild it beside the old one")
    for name, parser in {"status": status, "index": index}.items():
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        output(reach(parser))


def _files(add: Add) -> None:
    files = command(add, "files", "memory_files", "list the files of the memory")
    files.add_argument(
        "--source", choices=("memory", "sessions"), help="only files, or only conversations"
    )
    files.add_argument(
        "--limit", type=_count, default=1000, metavar="N", help="most files (default 1000)"
    )
    doctor = command(add, "doctor", "memory_files", "check the index and its model")
    for name, parser in {"files": files, "doctor": doctor}.items():
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    output(reach(files))
    output(doctor)


def _bench(add: Add) -> None:
    text = "measure the search on data sets, for each profile and beside FTS5"
    bench = command(add, "bench", "memory_bench", text)
    bench.add_argument(
        "--data", metavar="DIR", help="the data sets (default: $SKERRY_DATA, else ../shared/data)"
    )
    bench.add_argument(
        "--cache", metavar="DIR", help="keep vectors here, so that the next run embeds nothing"
    )
    bench.add_argument("--only", action="append", choices=KINDS, help="only this; may be repeated")
    bench.add_argument(
        "--profile", action="append", choices=PROFILES, help="only this; may be repeated"
    )
    bench.add_argument(
        "--conversations", type=_count, metavar="N", help="only the first so many of each set"
    )
    bench.add_argument("--text", action="store_true", help="by words alone, without a model")
    bench.add_argument("--plot", metavar="FILE", help="write recall against budget as SVG")
    output(bench)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)
