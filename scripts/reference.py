"""Writes docs/reference/configuration.md from the models of the configuration."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from scripts import config_schema
from skerry.config.json_schema import leaves

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "configuration.md"
_HEAD: Final = """# Reference of the configuration

Every key of `skerry.json`. `make reference` writes this page from the source; the
[guide](../guide/configuration.md) says how to use it. `[]` stands for each item of a list, `*` for
a name of your own. `skerry config schema` prints the same as a JSON Schema, for editors that read
`$schema`.
"""


def page() -> str:
    """Returns the text of the page."""
    tree = config_schema.schema()
    lines = [_HEAD]
    for key, section in tree["properties"].items():
        lines += [f"## `{key}`", "", one_line(section.get("description", "")), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += rows(key, section)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def rows(key: str, section: dict[str, Any]) -> Iterator[str]:
    """Yields a row for each key of a section."""
    for path, node in leaves(section, key):
        about = one_line(node.get("description", ""))
        yield f"| `{path}` | {kind(node)} | {default(node)} | {about} |"


def one_line(text: str) -> str:
    """Returns the text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def kind(node: dict[str, Any]) -> str:
    """Returns the allowed values, with their limits."""
    if node.get("format") == "password":
        return "secret"
    if "enum" in node:
        return ", ".join(f'`"{value}"`' for value in node["enum"])
    if "anyOf" in node:
        return " or ".join(map(kind, node["anyOf"]))
    types = node.get("type", "value")
    name = " or ".join(types) if isinstance(types, list) else str(types)
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low} to {high}"
    return f"{name}, from {low}" if low is not None else name


def default(node: dict[str, Any]) -> str:
    """Returns the value that holds where the key is absent."""
    value = node.get("default")
    if value in (None, "", [], {}):
        return "none"
    return f"`{msgspec.json.encode(value).decode()}`"


def main() -> int:
    """Writes the page, and the schema that the gateway reads."""
    config_schema.write()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
