"""Commands `skerry memwal ...`; each sends a request to the running gateway."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from skerry.sdk.cli import CliCall
from skerry_memwal.options import PLUGIN

MAX_LINES: Final = 100_000
MAX_FILE: Final = 64 * 1024 * 1024
_REMAINS: Final = {
    "relayer": "The server returns texts only to queries. An export on the server is complete.",
    "e2e": "The others were stored in another mode or with another key: export with these.",
}
"""Reason why an export lacks memories, by mode."""
_STATS: Final = (
    ("Server", "server"),
    ("Status", "status"),
    ("Version", "version"),
    ("Key", "key"),
    ("Account", "account"),
    ("Namespace", "namespace"),
    ("Auto-recall", "autoRecall"),
    ("Auto-capture", "autoCapture"),
)


def add(parser: ArgumentParser) -> None:
    """Adds the arguments."""
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--agent", default="main", metavar="NAME", help="whose memories")
        return added

    search = with_json(command("search", "print the memories nearest to a text, as JSON"))
    search.add_argument("query", metavar="QUERY")
    search.add_argument(
        "--limit", type=int, default=5, metavar="N", help="maximum number of memories (5)"
    )
    with_json(command("stats", "print the state of the server and the options"))
    with_json(command("status", "report problems of the memory, with remedies"))
    with_json(command("keys", "list the keys of agents, masked"))
    remember = with_json(command("remember", "store a text unchanged"))
    remember.add_argument("text", metavar="TEXT")
    forget = with_json(command("forget", "forget the memories with these words, or by id"))
    forget.add_argument("words", metavar="WORDS", nargs="?", default="")
    forget.add_argument("--id", action="append", default=[], metavar="ID", help="id of `search`")
    forget.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    export = with_json(command("export", "write the memories of an agent as JSON lines"))
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="(default: stdout)")
    imported = with_json(command("import", "store the texts of JSON lines"))
    imported.add_argument("file", metavar="FILE", help="of `export`; - is stdin")


def with_json(parser: ArgumentParser) -> ArgumentParser:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


async def run(call: CliCall) -> int:
    """Runs a command; returns the exit code."""
    return await _COMMANDS[call.arguments.command](call)


async def _ask(call: CliCall, method: str, **params: Any) -> Any:
    fields: Mapping[str, Any] = {"agent": call.arguments.agent, **params}
    return await call.ask(f"{PLUGIN}.{method}", fields)


async def _search(call: CliCall) -> int:
    arguments = call.arguments
    memories = await _ask(call, "search", query=arguments.query, limit=arguments.limit)
    call.write(json.dumps(memories, indent=2))
    return 0


async def _stats(call: CliCall) -> int:
    stats = await _ask(call, "stats")
    if call.arguments.json:
        call.write_json(stats)
        return 0
    for label, key in _STATS:
        value = stats[key]
        call.write(f"{label + ':':14}{str(value).lower() if isinstance(value, bool) else value}")
    return 0


async def _status(call: CliCall) -> int:
    state = await _ask(call, "status")
    if call.arguments.json:
        call.write_json(state)
    else:
        call.show(" ".join(filter(None, (state["text"], state["remedy"]))))
    return 0 if state["ok"] else 1


async def _keys(call: CliCall) -> int:
    rows = await _ask(call, "keys")
    if call.arguments.json:
        call.write_json(rows)
        return 0
    for row in rows:
        call.write(f"{row['agent']}  {row['key']}  {row['accountId']}  {row['namespace']}")
    return 0


async def _remember(call: CliCall) -> int:
    stored = await _ask(call, "remember", text=call.arguments.text)
    if call.arguments.json:
        call.write_json(stored)
    else:
        call.show(f"Accepted for the namespace {stored['namespace']}: job {stored['jobId']}.")
    return 0


async def _forget(call: CliCall) -> int:
    arguments = call.arguments
    if not (arguments.words or arguments.id):
        call.notice("error: nothing to forget. Name the words, or an id with --id.")
        return 2
    if not arguments.yes and not _confirmed(call, arguments.words or ", ".join(arguments.id)):
        return 1
    phrases = [arguments.words] if arguments.words else []
    report = await _ask(call, "forget", phrases=phrases, ids=arguments.id)
    if arguments.json:
        call.write_json(report)
    else:
        call.show(
            f"Forgotten: {report['forgotten']} memories of the namespace {report['namespace']}."
        )
    return 0


def _confirmed(call: CliCall, subject: str) -> bool:
    if not sys.stdin.isatty():
        message = "error: refusing to forget without confirmation: stdin is not a terminal."
        call.notice(f"{message} Pass --yes.")
        return False
    return input(f"Forget {subject!r} permanently? [y/N] ").strip().lower() in {"y", "yes"}


async def _export(call: CliCall) -> int:
    exported = await _ask(call, "export")
    lines = "\n".join(json.dumps(memory) for memory in exported["memories"])
    if call.arguments.file == "-":
        call.write(lines)
    else:
        _write(Path(call.arguments.file), f"{lines}\n")
    exported_count, count = len(exported["memories"]), exported["count"]
    if exported_count < count:
        message = f"error: {exported_count} of {count} memories were found."
        remedy = _REMAINS[exported["mode"]]
        call.notice(f"{message} {remedy}")
        return 1
    call.notice(f"{exported_count} memories of the namespace {exported['namespace']}.")
    return 0


def _write(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


async def _import(call: CliCall) -> int:
    name = call.arguments.file
    try:
        texts = list(_texts(name))
    except (OSError, ValueError) as error:
        call.notice(f"error: {name} cannot be imported: {error}")
        return 1
    for text in texts:
        await _ask(call, "remember", text=text)
    if call.arguments.json:
        call.write_json({"accepted": len(texts)})
    else:
        call.show(
            f"Accepted {len(texts)} text{'s' * (len(texts) != 1)}."
            " A text that is in the memory already is not stored again."
        )
    return 0


def _texts(name: str) -> list[str]:
    """Returns the texts of JSON lines.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is too large, or a line has no text.
    """
    if name == "-":
        data = sys.stdin.read(MAX_FILE + 1)
    else:
        with Path(name).open(encoding="utf-8") as file:
            data = file.read(MAX_FILE + 1)
    lines = data.splitlines()
    if len(data) > MAX_FILE or len(lines) > MAX_LINES:
        raise ValueError(f"more than {MAX_FILE} characters or {MAX_LINES} lines; split it")
    texts = []
    for number, line in enumerate(lines, 1):
        row = json.loads(line) if line.strip() else {"text": ""}
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise ValueError(f"line {number} is not a JSON object with a text")  # noqa: TRY004 - of the file
        if row["text"].strip():
            texts.append(row["text"])
    return texts


_COMMANDS: Final[Mapping[str, Callable[[CliCall], Awaitable[int]]]] = {
    "search": _search,
    "stats": _stats,
    "status": _status,
    "keys": _keys,
    "remember": _remember,
    "forget": _forget,
    "export": _export,
    "import": _import,
}
