"""Argument parsers of `skerry memory`."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime

from skerry.cli.options import Add, command, hits, output, reach

KINDS = ("turn", "session", "chunking", "language", "cross", "notes", "reply")
"""Kinds of `memory.bench.sets`, repeated so that help imports nothing; `reply`: of the tool."""
PROFILES = ("best", "openclaw", "classic")
"""Profiles of `skerry_recall.fuse`."""


_RUN = "skerry.features.memory.cli_"


def add(memory: ArgumentParser) -> None:
    """Adds the subcommands of `skerry memory`."""
    add = memory.add_subparsers(metavar="COMMAND", title="commands").add_parser
    _index(add)
    _notes(add)
    _files(add)
    _bench(add)


def _index(add: Add) -> None:
    status = command(add, "status", f"{_RUN}index", "show the state of the index and its backend")
    index = command(add, "index", f"{_RUN}index", "update the index from the files")
    index.add_argument("--force", action="store_true", help="rebuild it next to the old one")
    for name, parser in {"status": status, "index": index}.items():
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        output(reach(parser))


def _files(add: Add) -> None:
    files = command(add, "files", f"{_RUN}files", "list the files of the memory")
    files.add_argument(
        "--source", choices=("memory", "sessions"), help="only files, or only conversations"
    )
    files.add_argument(
        "--limit", type=_count, default=1000, metavar="N", help="limit on the files (default 1000)"
    )
    doctor = command(add, "doctor", f"{_RUN}files", "check the index and its model")
    for name, parser in {"files": files, "doctor": doctor}.items():
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    output(reach(files))
    output(doctor)


def _bench(add: Add) -> None:
    text = "measure the search on data sets, for each profile and for FTS5"
    bench = command(add, "bench", f"{_RUN}bench", text)
    bench.add_argument(
        "--data", metavar="DIR", help="the data sets (default: $SKERRY_DATA, else ../shared/data)"
    )
    bench.add_argument(
        "--cache", metavar="DIR", help="store vectors here, so that the next run embeds nothing"
    )
    bench.add_argument(
        "--only", action="append", choices=KINDS, help="only this kind; may be repeated"
    )
    bench.add_argument(
        "--profile", action="append", choices=PROFILES, help="only this profile; may be repeated"
    )
    bench.add_argument(
        "--conversations", type=_count, metavar="N", help="limit on the conversations of each set"
    )
    bench.add_argument("--text", action="store_true", help="search words only, without a model")
    bench.add_argument("--plot", metavar="FILE", help="write recall against budget as SVG")
    output(bench)


def _notes(add: Add) -> None:
    search = _action(add, "search", "search notes and conversations")
    search.add_argument("query", type=_words, metavar="QUESTION", help="a question, or words")
    search.add_argument(
        "--limit", type=hits, default=6, metavar="N", help="limit on the hits (default 6)"
    )
    search.add_argument(
        "--source", choices=("memory", "sessions"), help="only files, or only conversations"
    )
    search.add_argument("--path", metavar="P", help="only this file, or this folder/")
    search.add_argument("--session", metavar="KEY", help="only that conversation")
    search.add_argument("--since", type=_day, metavar="DAY", help="only from this day on")
    search.add_argument("--until", type=_day, metavar="DAY", help="only before this day")
    search.add_argument(
        "--explain", action="store_true", help="print the reasons for each hit's rank"
    )
    get = _action(add, "get", "print lines of a memory file")
    get.add_argument("path", metavar="PATH", help="path that search prints, with or without #L3-L9")
    get.add_argument("--from", dest="start", type=_line, metavar="N", help="the first line")
    get.add_argument("--lines", type=_line, metavar="N", help="number of lines")
    write = _action(add, "write", "write a note for every later conversation")
    write.add_argument("text", type=_words, metavar="TEXT", help="text of the note; - reads stdin")
    write.add_argument(
        "--section", metavar="HEADING", help="section of MEMORY.md (default: the log of the day)"
    )
    undo = _action(add, "undo", "remove a note")
    undo.add_argument("id", type=_id, metavar="ID", help="id that `write` or the tool printed")

    _action(add, "unverified", "list unverified notes")
    confirm = _action(add, "confirm", "accept an unverified note as yours")
    confirm.add_argument("id", type=_id, metavar="ID", help="id that `unverified` lists")

    forget = _action(add, "forget", "erase every sentence with some words, everywhere", "forget")
    forget.add_argument("text", metavar="TEXT", nargs="+", help="exact words to erase")
    forget.add_argument("--dry-run", action="store_true", help="only show the matches")
    forget.add_argument("--yes", action="store_true", help="erase without confirmation")
    forget.add_argument("--extra", action="store_true", help="also erase in the extra paths")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _words(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("the text is empty")
    return text


def _id(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{10}", text):
        raise ArgumentTypeError(f"{text!r} is not the id of a note such as 1e034a8d51")
    return text


def _action(add: Add, name: str, text: str, module: str = "notes") -> ArgumentParser:
    parser = command(add, name, _RUN + module, text)
    parser.set_defaults(action=name)
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    return output(reach(parser))


def _line(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 1_000_000):  # noqa: PLR2004 - files are shorter
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


def _day(text: str) -> int:
    """Returns the start of the day `YYYY-MM-DD` in the local time zone, in ms since 1970."""
    try:
        return int(datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp() * 1000)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day such as 2026-11-22") from None
