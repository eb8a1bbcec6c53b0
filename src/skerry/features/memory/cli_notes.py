"""The `skerry memory` commands on notes: through a gateway, else in the state directory."""

import re
import sys
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, plain, show, show_json, styled
from skerry.features.memory.cli_access import empty_advice, is_indexed, memory
from skerry.features.memory.cli_progress import Bar

READ: Final = ("operator.read",)
WRITE: Final = ("operator.write",)
_NO_HITS: Final = "No hits. Try other words; `skerry memory status` shows the state of the index."
_LINE_RANGE: Final = re.compile(r"(?P<path>.+?)#L(?P<first>\d+)(?:-L(?P<last>\d+))?")


def run(arguments: Namespace) -> int:
    """Runs one of the commands on notes; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    scopes = READ if arguments.action in {"search", "get", "unverified"} else WRITE
    method, params = request(arguments)
    bar, is_empty = Bar(), False
    async with memory(arguments, scopes) as (access, workspace):
        try:
            reply = await access.ask(method, params, bar)
            if arguments.action == "search" and not reply["results"]:
                status = await access.ask("memory.status", {}, bar)
                is_empty = is_indexed(status) and not status["files"]
        finally:
            bar.end()
    if arguments.json:
        show_json(reply)
        return 0
    if arguments.action == "search":
        _hits(reply)
        if not reply["results"]:
            show(empty_advice(workspace) if is_empty else _NO_HITS)
    else:
        _print(arguments.action, reply)
    return 0


def _print(action: str, reply: dict[str, Any]) -> None:
    match action:
        case "get":
            _lines(reply)
        case "unverified":
            _waiting(reply)
        case "write" | "confirm":
            line = f"Noted in {one_line(reply['path'])}, line {reply['startLine']}."
            show(f"{line} To remove it: skerry memory undo {reply['id']}")
        case _:
            show(f"Removed from {one_line(reply['path'])}: {one_line(reply['text'])}")


def request(arguments: Namespace) -> tuple[str, dict[str, Any]]:
    """Returns the method for the arguments, and its parameters (pure, except for stdin)."""
    params: dict[str, Any]
    match arguments.action:
        case "search":
            options = {
                "query": arguments.query,
                "limit": arguments.limit,
                "source": arguments.source,
                "path": arguments.path,
                "sessionKey": arguments.session,
                "since": arguments.since,
                "until": arguments.until,
                "explain": arguments.explain,
            }
            params = {name: value for name, value in options.items() if value is not None}
        case "get":
            params = _line_range(arguments)
        case "write":
            text = sys.stdin.read() if arguments.text == "-" else arguments.text
            params = {"text": text}
            if arguments.section:
                params["section"] = arguments.section
        case "unverified":
            params = {}
        case _:
            params = {"id": arguments.id}
    return f"memory.{arguments.action}", params


def _line_range(arguments: Namespace) -> dict[str, Any]:
    """Parses the line range, from the options or from `PATH#L3-L9`."""
    match = _LINE_RANGE.fullmatch(arguments.path)
    if match is None:
        options = {"path": arguments.path, "from": arguments.start, "lines": arguments.lines}
        return {name: value for name, value in options.items() if value is not None}
    first = int(match["first"])
    count = int(match["last"] or first) - first + 1
    return {
        "path": match["path"],
        "from": arguments.start or first,
        "lines": arguments.lines or max(count, 1),
    }


def _waiting(reply: dict[str, Any]) -> None:
    for note in reply["notes"]:
        show(styled(f"{note['id']}  {one_line(note['at'])}  {one_line(note['origin'])}", "bold"))
        show(f"   {one_line(note['text'])}")
    if reply["notes"]:
        show("Accept one as yours: skerry memory confirm ID. Remove it: skerry memory undo ID.")
    else:
        show("No unverified notes.")


def _hits(reply: dict[str, Any]) -> None:
    for number, hit in enumerate(reply["results"], 1):
        first, last = hit["startLine"], hit["endLine"]
        lines = f"#L{first}" if first == last else f"#L{first}-L{last}"
        show(styled(f"{number}. {one_line(hit['path'])}{lines}  {hit['score']:.3f}", "bold"))
        show("\n".join(f"   {line}" for line in plain(hit["text"]).strip().splitlines()))
        for part in hit.get("explanation", ()):
            digits = 0 if part["name"].endswith(".rank") else 4
            name, means = one_line(part["name"]), one_line(part["means"])
            show(styled(f"   {part['value']:>9.{digits}f}  {name:<12} {means}".rstrip(), "dim"))
        show()
    for note in _notes(reply):
        notice(one_line(note))


def _notes(reply: dict[str, Any]) -> list[str]:
    """Returns the remarks on the answer, for people."""
    notes = [str(note) for note in reply["notes"]]
    if reply["mode"] == "text":
        notes.insert(0, "Only words were searched.")
    if reply["fallback"]:
        notes.append(f"{reply['fallback']['from']}: {reply['fallback']['reason']}")
    return notes


def _lines(reply: dict[str, Any]) -> None:
    if reply["text"]:
        show(plain(reply["text"]))
    if reply["hint"]:
        notice(one_line(reply["hint"]))
    if reply["nextFrom"]:
        notice(f"Continue with: --from {reply['nextFrom']}")
