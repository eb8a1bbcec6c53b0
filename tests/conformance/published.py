"""The properties of every method's parameters, as OpenClaw publishes them.

`tests/data/openclaw-params.jsonl` has them for the methods that the gateway has, a line a method.
`python -m tests.conformance.published` writes it anew, where all three are installed.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from skerry.gateway.dispatch import MethodTable

HERE = Path(__file__).parent
NODE = HERE / "node" / "node_modules" / ".bin" / "node"
TABLE = HERE.parent / "data" / "openclaw-params.jsonl"
SOURCES = {
    "2026.2.17": HERE / "openclaw" / "2026.2.17" / "node_modules" / "openclaw",
    "2026.9.1": HERE / "node" / "node_modules" / "@openclaw/gateway-protocol/protocol.schema.json",
    "2026.9.6": HERE / "openclaw" / "2026.9.6" / "node_modules" / "openclaw",
}
"""The two programs, and between them the schema that is published by itself."""


_OTHER = {"agent.identity.get": "AgentIdentityParams"}
"""Definitions that are not named after their method."""


def definition(method: str) -> str:
    """Returns the name that a method's parameters have in the schemas."""
    if method in _OTHER:
        return _OTHER[method]
    parts = re.split(r"[.-]", method)
    return "".join(part[:1].upper() + part[1:] for part in parts) + "Params"


def published(version: str) -> dict[str, list[str]]:
    """Returns the properties of each definition of parameters."""
    program = [NODE, HERE / "openclaw" / "properties.mjs", SOURCES[version]]
    completed = subprocess.run(program, capture_output=True, check=True, timeout=120)
    found: dict[str, list[str]] = json.loads(completed.stdout)
    return found


def lines() -> list[dict[str, Any]]:
    """Returns the table as it is published now."""
    found = {version: published(version) for version in SOURCES}
    names = sorted({*MethodTable().names, "connect"})
    rows: list[dict[str, Any]] = []
    for name in names:
        own = {
            version: of[definition(name)] for version, of in found.items() if definition(name) in of
        }
        if own:
            rows.append({"method": name} | own)
    return rows


def table() -> list[dict[str, Any]]:
    """Returns the table as it stands in the repository."""
    return [msgspec.json.decode(line) for line in TABLE.read_bytes().splitlines()]


if __name__ == "__main__":
    TABLE.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in lines()))
