"""The `skerry memory` commands on notes: through a gateway, else by themselves."""

import re
import sys
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, plain, show, show_json, styled
from skerry.features.memory.cli_access import memory, nothing
from skerry.features.memory.cli_progress import Bar

READ: Final = ("operator.read",)
WRITE: Final = ("operator.write",)
_FRUITLESS: Final = "No hits. Try other words; `skerry memory status` shows the state of the index."
_PLACE: Final = re.compile(r"(?P<path>.+?)#L(?P<first>\d+)(?:-L(?P<last>\d+))?")


def run(arguments: Namespace) -> int:
    """Runs one of the commands on notes; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    scopes = READ if arguments.action in {"search", "get", "unverified"} else WRITE
    method, params = request(arguments)
    bar, there = Bar(), 0
    async with memory(arguments, scopes) as (place, workspace):
        try:
            found = await place.ask(method, params, bar)
            if arguments.action == "search" and not found["results"]:
                there = (await place.ask("memory.status", {}, bar))["files"]
        finally:
            bar.end()
    if arguments.json:
        show_json(found)
        return 0
    if arguments.action == "search":
        _hits(found)
        if not found["results"]:
            show(_FRUITLESS if there else nothing(workspace))
    else:
        _print(arguments.action, found)
    return 0


def _print(action: str, found: dict[str, Any]) -> None:
    match action:
        case "get":
            _lines(found)
        case "unverified":
            _waiting(found)
        case "write" | "confirm":
            line = f"Noted in {one_line(found['path'])}, line {found['startLine']}."
            show(f"{line} To remove it: skerry memory undo {found['id']}")
        case _:
            show(f"Removed from {one_line(found['path'])}: {one_line(found['text'])}")


def request(arguments: Namespace) -> tuple[str, dict[str, Any]]:
    """Returns the method that the arguments ask for, and its parameters (pure, but for stdin)."""
    params: dict[str, Any]
    match arguments.action:
        case "search":
            given = {
                "query": arguments.query,
                "limit": arguments.limit,
                "source": arguments.source,
                "path": arguments.path,
                "sessionKey": arguments.session,
                "since": arguments.since,
                "until": arguments.until,
                "explain": arguments.explain,
            }
            params = {name: value for name, value in given.items() if value is not None}
        case "get":
            params = _place(arguments)
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


def _place(arguments: Namespace) -> dict[str, Any]:
    """Parses the line range: `PATH#L3-L9` names it too."""
    found = _PLACE.fullmatch(arguments.path)
    if found is None:
        given = {"path": arguments.path, "from": arguments.start, "lines": arguments.lines}
        return {name: value for name, value in given.items() if value is not None}
    first = int(found["first"])
    count = int(found["last"] or first) - first + 1
    return {
        "path": found["path"],
        "from": arguments.start or first,
        "lines": arguments.lines or max(count, 1),
    }


def _waiting(found: dict[str, Any]) -> None:
    for note in found["notes"]:
        show(styled(f"{note['id']}  {one_line(note['at'])}  {one_line(note['origin'])}", "bold"))
        show(f"   {one_line(note['text'])}")
    if found["notes"]:
        show("To make one yours: skerry memory confirm ID. To drop it: skerry memory undo ID.")
    else:
        show("No unverified notes.")


def _hits(found: dict[str, Any]) -> None:
    for number, hit in enumerate(found["results"], 1):
        first, last = hit["startLine"], hit["endLine"]
        lines = f"#L{first}" if first == last else f"#L{first}-L{last}"
        show(styled(f"{number}. {one_line(hit['path'])}{lines}  {hit['score']:.3f}", "bold"))
        show("\n".join(f"   {line}" for line in plain(hit["text"]).strip().splitlines()))
        for part in hit.get("explanation", ()):
            places = 0 if part["name"].endswith(".rank") else 4
            name, means = one_line(part["name"]), one_line(part["means"])
            show(styled(f"   {part['value']:>9.{places}f}  {name:<12} {means}".rstrip(), "dim"))
        show()
    for note in _notes(found):
        notice(one_line(note))


def _notes(found: dict[str, Any]) -> list[str]:
    """Returns the notes on the answer for the person."""
    notes = [str(one) for one in found["notes"]]
    if found["mode"] == "text":
        notes.insert(0, "Only words were searched.")
    if found["fallback"]:
        notes.append(f"{found['fallback']['from']}: {found['fallback']['reason']}")
    return notes


def _lines(found: dict[str, Any]) -> None:
    if found["text"]:
        show(plain(found["text"]))
    if found["hint"]:
        notice(one_line(found["hint"]))
    if found["nextFrom"]:
        notice(f"Continue with: --from {found['nextFrom']}")
