"""Writes docs/reference/protocol.md: all methods and events, from the tables of the gateway."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skerry.gateway.dispatch import MethodTable
from skerry.gateway.frames import MAX_BEFORE_CONNECT, MAX_BUFFERED, MAX_PAYLOAD, PROTOCOLS
from skerry.gateway.handshake import ConnectParams
from skerry.gateway.method import Method, Params
from skerry.policy import access
from skerry.sdk.features import registered

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "protocol.md"
_HEAD: Final = """# Reference of the protocol

Versions {versions}. `make reference` writes this page from the source; the
[guide](../guide/protocol.md) explains the parts. Only an `operator` may call a method
whose role is not `node`. `operator.admin` includes every scope, `operator.write` includes
`operator.read`. A parameter in **bold** is required; an unknown one is refused, unless a method
states otherwise. Plugins may add methods.

A frame has at most {before:,} bytes before `connect` succeeded and {after:,} after it. A client for
which more than {buffered:,} bytes wait is disconnected.
"""
_ONLY_NAMES: Final = re.compile(r"Parameters of `[^`]+`( and `[^`]+`)*\.|No parameters\.|")
EVENTS: Final[Mapping[str, str]] = {
    "config.changed": "The file was edited: keys now in use, keys that wait, and mistakes in it.",
    "agent": "Progress of a run: `stream` is `lifecycle`, `assistant`, `thinking` or `tool`. "
    "Only a client with the capability `tool-events` receives `tool`.",
    "chat": "The answer so far as `delta`, then one of `final`, `aborted` and `error`.",
    "connect.challenge": "The first frame of a connection: the `nonce` that a device signs.",
    "device.pair.requested": "A device waits for approval.",
    "device.pair.resolved": "A device was approved or rejected.",
    "health": "The report on the gateway's health changed.",
    "node.invoke.request": "A request to a node to run a command.",
    "node.pair.requested": "A node waits for approval.",
    "node.pair.resolved": "A node was approved or rejected.",
    "presence": "A client connected or disconnected.",
    "session.message": "A new message in the transcript; after `sessions.messages.subscribe`.",
    "sessions.changed": "A conversation changed; after `sessions.subscribe`.",
    "shutdown": "The gateway is about to stop.",
    "tick": "The gateway is alive; sent every `policy.tickIntervalMs`.",
}
"""Meaning of each event; the published schema has the payloads."""


def page() -> str:
    """Returns the text of the page."""
    head = _HEAD.format(
        versions=" and ".join(map(str, sorted(PROTOCOLS))),
        before=MAX_BEFORE_CONNECT,
        after=MAX_PAYLOAD,
        buffered=MAX_BUFFERED,
    )
    table, features = MethodTable(), registered()
    methods = table.methods
    events = {name: text for name, (_, text) in features.events.items()}
    needs = {name: need for name, (need, _) in features.events.items()}
    lines = [
        head,
        "## Overview",
        "",
        "| method | role | scope | purpose |",
        "|---|---|---|---|",
    ]
    for method in methods:
        need = _need(table.needs[method.name])
        lines.append(f"| [`{method.name}`](#{anchor(method.name)}) | {need} | {about(method)} |")
    lines += ["", "## Events", "", "| event | role | scope | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {_need({**access.EVENTS, **needs}[name])} | {text} |"
        for name, text in {**EVENTS, **events}.items()
    ]
    lines += ["", "## Methods", "", "### connect", ""]
    lines += ["The first request. It introduces the client.", "", *_table(ConnectParams)]
    for method in methods:
        lines += [f"### {method.name}", "", about(method), "", *_table(method.params)]
    return "\n".join(lines).rstrip() + "\n"


def about(method: Method[Any]) -> str:
    """Returns the purpose of a method, in one line."""
    text = (method.handler.__doc__ or method.params.__doc__ or "").split("\n\n")[0]
    return _one_line(text)


def anchor(name: str) -> str:
    """Returns the anchor of a heading."""
    return name.lower().replace(".", "")


def _need(need: access.Need) -> str:
    return f"{need.role or 'any'} | {f'`{need.scope}`' if need.scope else 'none'}"


def _table(params: type[Params]) -> list[str]:
    schema = params.model_json_schema(by_alias=True)
    rows = list(_rows(schema, schema.get("$defs", {}), ""))
    if not rows:
        return ["No parameters.", ""]
    note = _one_line((params.__doc__ or "").split("\n\n")[0])
    notes = [] if _ONLY_NAMES.fullmatch(note) else [note, ""]
    return [*notes, "| parameter | type | default |", "|---|---|---|", *rows, ""]


def _rows(node: dict[str, Any], defs: dict[str, Any], prefix: str) -> Iterator[str]:
    required = node.get("required", ())
    for key, property_ in node.get("properties", {}).items():
        schema, name = _resolved(property_, defs), f"{prefix}{key}"
        label = f"**`{name}`**" if key in required else f"`{name}`"
        default = property_.get("default")
        text = (
            "" if default in (None, [], {}) or isinstance(default, dict) else f"`{_json(default)}`"
        )
        yield f"| {label} | {kind(schema, defs)} | {text} |"
        inner = (
            _resolved(schema.get("items", {}), defs) if schema.get("type") == "array" else schema
        )
        mark = "[]." if schema.get("type") == "array" else "."
        yield from _rows(inner, defs, f"{name}{mark}")


def _resolved(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Returns the node without references, and without the null that only means absence."""
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return _resolved(
            {**options[0], **({"default": node["default"]} if "default" in node else {})}, defs
        )
    if "$ref" in node:
        target: dict[str, Any] = defs[node["$ref"].rpartition("/")[2]]
        return target
    return node


def kind(node: dict[str, Any], defs: dict[str, Any]) -> str:
    """Returns the allowed values, with their limits."""
    if "anyOf" in node:
        return " or ".join(
            kind(_resolved(option, defs), defs)
            for option in node["anyOf"]
            if option != {"type": "null"}
        )
    if "enum" in node:
        return ", ".join(f'`"{option}"`' for option in node["enum"])
    if "const" in node:
        return f"`{_json(node['const'])}`"
    name = str(node.get("type", "any"))
    if name == "array":
        item = _resolved(node.get("items", {}), defs)
        name = f"array of {kind(item, defs)}"
    return name + _limits(node)


def _limits(node: dict[str, Any]) -> str:
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        low, high = node.get(least), node.get(most)
        if high is not None:
            return f", {low or 0:,} to {high:,}{unit}"
        if low is not None:
            return f", from {low:,}{unit}"
    return ""


def _json(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
