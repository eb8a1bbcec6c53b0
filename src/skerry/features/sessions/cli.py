"""The parser of `skerry sessions`."""

from argparse import ArgumentParser

from skerry.cli.options import Add, command, hits, output, reach, subcommands, whole
from skerry.features.sessions.cli_recovered_parser import add_recovered

_RUN = "skerry.features.sessions.cli_run"
_IMPORT = "skerry.features.sessions.cli_import"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry sessions`."""
    add = subcommands(group)
    listing = _sessions_command(add, "list", "list the conversations, latest used first")
    listing.add_argument(
        "--search", metavar="TEXT", help="text in key, label, first or last message"
    )
    listing.add_argument(
        "--archived", action="store_true", help="list archived conversations, which can be restored"
    )
    listing.add_argument(
        "--limit",
        type=whole(1, 1000),
        default=50,
        metavar="N",
        help="maximum number of rows, up to 1000 (default: 50)",
    )
    showing = _sessions_command(add, "show", "print a conversation", name=True)
    showing.add_argument("--jsonl", action="store_true", help="print the lines of a pi session v3")
    export = _sessions_command(add, "export", "write a conversation to a file", name=True)
    export.add_argument(
        "--format", choices=["jsonl", "markdown"], default="jsonl", help="default jsonl (pi v3)"
    )
    export.add_argument("--output", metavar="FILE", help="target file (default: stdout)")
    _sessions_command(add, "delete", "archive a conversation; undo with restore", name=True)
    _sessions_command(
        add, "reset", "start a new session of a conversation; undo with restore", name=True
    )
    _sessions_command(add, "restore", "restore a deleted or reset session", name=True)
    rename = _sessions_command(add, "rename", "name a conversation", name=True)
    rename.add_argument("label", metavar="NAME", help='its new name; "" removes it')
    text = "show the origins of text from others in a conversation"
    taint = _sessions_command(add, "taint", text, name=True)
    taint.add_argument("--clear", action="store_true", help="trust the messages so far")
    search = _sessions_command(add, "search", "search messages, however old")
    search.add_argument("text", metavar="TEXT", help="words of the messages")
    search.add_argument("--session", metavar="SESSION", help="only messages of this conversation")
    search.add_argument(
        "--limit",
        type=hits,
        default=8,
        metavar="N",
        help="maximum number of hits, up to 50 (default: 8)",
    )
    _session_files(add)


def _session_files(add: Add) -> None:
    prune = _sessions_command(add, "prune", "archive and remove sessions beyond the limits")
    prune.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    importing = command(add, "import", _IMPORT, "import transcripts; stop the gateway first")
    importing.add_argument(
        "--mine",
        action="store_true",
        help="the user messages are yours, so these conversations use memory",
    )
    importing.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="JSONL files of pi sessions v3, or their folder; exported Markdown",
    )
    importing.add_argument("--key", help="conversation of transcripts without one")
    importing.add_argument(
        "--agent", metavar="ID", help="agent of the transcripts (default: the default agent)"
    )
    importing.add_argument("--dry-run", action="store_true", help="check the files, change nothing")
    output(importing)
    mirror = command(
        add, "mirror", _RUN, "rewrite sessions.json and the transcripts; stop the gateway first"
    )
    output(mirror)
    add_recovered(add)


def _sessions_command(add: Add, action: str, text: str, *, name: bool = False) -> ArgumentParser:
    parser = command(add, action, _RUN, text)
    if name:
        parser.add_argument("name", metavar="SESSION", help="its key, label or session id")
    parser.add_argument("--agent", metavar="ID", help="only conversations of this agent")
    if action != "export":
        output(parser)
    return reach(parser)
