"""The parser of `skerry sessions`."""

from argparse import ArgumentParser

from skerry.cli.options import Add, command, hits, output, reach, subcommands, whole
from skerry.features.sessions.cli_recovered_parser import add_recovered

_RUN = "skerry.features.sessions.cli_run"
_IMPORT = "skerry.features.sessions.cli_import"


def add(group: ArgumentParser) -> None:
    """Adds what is beneath `skerry sessions`."""
    add = subcommands(group)
    listing = _sessions_command(add, "list", "list the conversations, the latest used first")
    listing.add_argument(
        "--search", metavar="TEXT", help="text in key, label, first or last message"
    )
    listing.add_argument(
        "--archived", action="store_true", help="archived ones, which can be restored"
    )
    listing.add_argument(
        "--limit",
        type=whole(1, 1000),
        default=50,
        metavar="N",
        help="most rows, up to 1000 (default: 50)",
    )
    showing = _sessions_command(add, "show", "print a conversation", name=True)
    showing.add_argument("--jsonl", action="store_true", help="as the lines of a pi session v3")
    export = _sessions_command(add, "export", "write a conversation to a file", name=True)
    export.add_argument(
        "--format", choices=["jsonl", "markdown"], default="jsonl", help="default jsonl (pi v3)"
    )
    export.add_argument("--output", metavar="FILE", help="where to (default: stdout)")
    _sessions_command(add, "delete", "archive a conversation; restore undoes it", name=True)
    _sessions_command(add, "reset", "begin a conversation anew; restore undoes it", name=True)
    _sessions_command(add, "restore", "bring a deleted or reset session back", name=True)
    rename = _sessions_command(add, "rename", "name a conversation", name=True)
    rename.add_argument("label", metavar="NAME", help='its new name; "" takes it away')
    text = "show whose words, beside yours, a conversation has"
    taint = _sessions_command(add, "taint", text, name=True)
    taint.add_argument("--clear", action="store_true", help="trust what was said so far")
    search = _sessions_command(add, "search", "search messages, however old")
    search.add_argument("text", metavar="TEXT", help="words of the messages")
    search.add_argument("--session", metavar="SESSION", help="only in this conversation")
    search.add_argument(
        "--limit", type=hits, default=8, metavar="N", help="most hits, up to 50 (default: 8)"
    )
    _session_files(add)


def _session_files(add: Add) -> None:
    prune = _sessions_command(add, "prune", "archive and remove sessions over the limits")
    prune.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    importing = command(add, "import", _IMPORT, "import transcripts; no gateway may run")
    importing.add_argument(
        "--mine", action="store_true", help="the user messages are yours, so memory is used there"
    )
    importing.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="JSONL files of pi sessions v3, or their folder; our Markdown",
    )
    importing.add_argument("--key", help="conversation of transcripts without a known one")
    importing.add_argument(
        "--agent", metavar="ID", help="agent of the transcripts (the default agent)"
    )
    importing.add_argument("--dry-run", action="store_true", help="check them, change nothing")
    output(importing)
    mirror = command(
        add, "mirror", _RUN, "rewrite sessions.json and the transcripts; no gateway may run"
    )
    output(mirror)
    add_recovered(add)


def _sessions_command(add: Add, action: str, text: str, *, name: bool = False) -> ArgumentParser:
    parser = command(add, action, _RUN, text)
    if name:
        parser.add_argument("name", metavar="SESSION", help="its key, label or session id")
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    if action != "export":
        output(parser)
    return reach(parser)
