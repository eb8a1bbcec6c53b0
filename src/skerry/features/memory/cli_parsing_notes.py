"""The parsers of the commands that search and write what is remembered: `skerry memory ...`."""

import re
from argparse import ArgumentParser, ArgumentTypeError

from skerry.cli.options import Add, command, hits, output, reach


def add_notes(add: Add) -> None:
    """Adds the commands on notes to `skerry memory`."""
    search = _action(add, "search", "search notes and conversations")
    search.add_argument("query", type=_words, metavar="QUESTION", help="a question, or words")
    search.add_argument("--limit", type=hits, default=6, metavar="N", help="most hits (default 6)")
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
    get.add_argument("path", metavar="PATH", help="as search prints it: with or without #L3-L9")
    get.add_argument("--from", dest="start", type=_line, metavar="N", help="the first line")
    get.add_argument("--lines", type=_line, metavar="N", help="how many lines")
    write = _action(add, "write", "write a note for every later conversation")
    write.add_argument("text", type=_words, metavar="TEXT", help="text of the note; - reads stdin")
    write.add_argument(
        "--section", metavar="HEADING", help="of MEMORY.md (default: the log of the day)"
    )
    undo = _action(add, "undo", "remove a note")
    undo.add_argument(
        "id", type=_id, metavar="ID", help="as `write`, or the tool's answer, named it"
    )

    _action(add, "unverified", "list unverified notes")
    confirm = _action(add, "confirm", "make an unverified note yours")
    confirm.add_argument("id", type=_id, metavar="ID", help="as `unverified` lists it")

    forget = _action(add, "forget", "erase every sentence with some words, everywhere", "forget")
    forget.add_argument("text", metavar="TEXT", nargs="+", help="exact words to erase")
    forget.add_argument("--dry-run", action="store_true", help="only show the matches")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    forget.add_argument("--extra", action="store_true", help="also in the extra paths")


def _words(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("the text is empty")
    return text


def _id(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{10}", text):
        raise ArgumentTypeError(f"{text!r} is not the id of a note such as 1e034a8d51")
    return text


def _action(add: Add, name: str, text: str, module: str = "notes") -> ArgumentParser:
    parser = command(add, name, f"memory_{module}", text)
    parser.set_defaults(action=name)
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    return output(reach(parser))


def _line(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 1_000_000):  # noqa: PLR2004 - files are shorter
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


def _day(text: str) -> int:
    """Returns the begin of the day `YYYY-MM-DD` here, in ms since 1970."""
    from datetime import datetime  # noqa: PLC0415 - help does without it

    try:
        return int(datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp() * 1000)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day such as 2026-11-22") from None
