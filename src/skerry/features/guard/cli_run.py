"""`skerry guard`: scans and fences texts like the gateway; needs no gateway."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

from skerry.cli.json_lines import BadLine, answer, lines
from skerry.cli.render import show
from skerry.policy.fences import about, fence
from skerry.policy.injection import scan

_UNREADABLE: Final = {"flagged": True, "score": 1.0, "matches": ["unreadable"]}
"""Result for unreadable input: a gate does not pass a text that it cannot read."""


def run(arguments: Namespace) -> int:
    """Runs `skerry guard ...`; returns the exit code."""
    respond = _scanned if arguments.action == "scan" else _fenced
    if arguments.stdin:
        unreadable = _UNREADABLE if arguments.action == "scan" else {}
        for item in lines():
            answer({**item.answer, **unreadable} if isinstance(item, BadLine) else respond(item))
        return 0
    item = {"id": None, "text": arguments.text, "source": getattr(arguments, "source", "text")}
    result = respond(item)
    if arguments.json:
        answer(result)
    elif arguments.action == "fence":
        show(result["fenced"])
    else:
        verdict = "flagged" if result["flagged"] else "not flagged"
        reasons = f" [{', '.join(result['matches'])}]" if result["matches"] else ""
        show(f"{verdict}, score {result['score']:.2f}{reasons}")
    return 0


def _scanned(item: Mapping[str, Any]) -> dict[str, Any]:
    text = item.get("text")
    if not isinstance(text, str):
        return {**_refused(item, "text is not a string."), **_UNREADABLE}
    result = scan(text)
    return {
        "id": item.get("id"),
        "flagged": result.flagged,
        "score": result.score,
        "matches": list(result.matches),
    }


def _fenced(item: Mapping[str, Any]) -> dict[str, Any]:
    text, source = item.get("text"), item.get("source", "text")
    if not isinstance(text, str) or not isinstance(source, str):
        return _refused(item, "text or source is not a string.")
    return {"id": item.get("id"), "fenced": fence(text, source, about=about(scan(text)))}


def _refused(item: Mapping[str, Any], message: str) -> dict[str, Any]:
    return {"id": item.get("id"), "error": {"code": "input", "message": message}}
