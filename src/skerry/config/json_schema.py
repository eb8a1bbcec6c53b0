"""The JSON Schema of the configuration, from `json_schema.json`, which `make reference` writes."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from skerry.config.redact import holds_secrets

FILE: Final = Path(__file__).with_suffix(".json")
_UNKNOWN_TO_FORMS: Final = {"patternProperties", "propertyNames", "maxProperties"}
_Node = dict[str, Any]


def schema() -> _Node:
    """Returns the schema of the file without `$ref`, because clients do not resolve references."""
    tree: _Node = json.loads(FILE.read_bytes())
    return tree


@cache
def for_forms() -> tuple[bytes, bytes]:
    """Returns the schema and the hints for the forms of clients, each encoded as JSON.

    Forms of OpenClaw cannot edit a section with `additionalProperties: true`, a value of two types,
    or a value with an unknown keyword. In this schema such a section allows keys of any schema, a
    value has the one type that a form can fill, and unknown keywords are left out; the gateway
    checks the values in any case.
    """
    tree = schema()
    return json.dumps(_simple(tree)).encode(), json.dumps(hints(tree)).encode()


def _simple(node: _Node) -> _Node:
    if options := node.get("anyOf"):
        about: _Node = {key: node[key] for key in ("description", "default") if key in node}
        return {**_simple(_fillable(options)), **about}
    simple = _with_known_keywords(node)
    if "properties" in node:
        simple["properties"] = {key: _simple(member) for key, member in node["properties"].items()}
    if isinstance(node.get("items"), dict):
        simple["items"] = _simple(node["items"])
    additional = node.get("additionalProperties")
    if isinstance(additional, dict):
        simple["additionalProperties"] = _simple(additional)
    elif additional is True:
        simple["additionalProperties"] = {}
        if "properties" in node:
            del simple["additionalProperties"]
    return simple


def _with_known_keywords(node: _Node) -> _Node:
    """Returns a node with only the keywords that forms support."""
    simple = {key: value for key, value in node.items() if key not in _UNKNOWN_TO_FORMS}
    if "const" in simple:
        simple["enum"] = [simple.pop("const")]
    if isinstance(node.get("type"), list):
        simple["type"] = node["type"][0]
    return simple


def _fillable(options: list[_Node]) -> _Node:
    """Returns the option that a form can fill: constants, the text of a secret, or an object."""
    if all("enum" in option for option in options):
        return {"type": "string", "enum": [word for option in options for word in option["enum"]]}
    secret = next((option for option in options if option.get("format") == "password"), None)
    return secret or next((option for option in options if option.get("properties")), options[0])


def leaves(node: _Node, path: str = "") -> Iterator[tuple[str, _Node]]:
    """Yields each key that a person can set: `agents.list[].name`, `models.providers.*.baseUrl`."""
    section = _object_of(node)
    properties = section.get("properties", {})
    for key, member in properties.items():
        yield from leaves(member, f"{path}.{key}" if path else key)
    items, additional = section.get("items"), section.get("additionalProperties")
    if isinstance(items, dict) and _object_of(items).get("properties"):
        yield path, node
        yield from leaves(items, f"{path}[]")
    elif isinstance(additional, dict) and _object_of(additional).get("properties"):
        yield path, node
        yield from leaves(additional, f"{path}.*")
    elif not properties:
        yield path, node


def hints(tree: _Node) -> _Node:
    """Returns the form hints by key: label, help text, and whether the value is hidden."""
    keys: _Node = {}
    for order, (key, member) in enumerate(tree["properties"].items()):
        keys[key] = {"label": label(key), "group": label(key), "order": 10 * (order + 1)}
        if member.get("description"):
            keys[key]["help"] = member["description"]
    for path, member in leaves(tree):
        hint = keys.setdefault(path, {"label": label(path)})
        if member.get("description"):
            hint["help"] = member["description"]
        if holds_secrets(path.rpartition(".")[2]) or "password" in str(member.get("format")):
            hint["sensitive"] = True
    return keys


def label(path: str) -> str:
    """Returns a label for a key: `timeoutSeconds` becomes `Timeout Seconds`."""
    name = path.rpartition(".")[2].replace("[]", "").lstrip("$")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:1].upper() + name[1:])


def _object_of(node: _Node) -> _Node:
    """Returns the object form of a section that also has a short form."""
    if node.get("format") == "password":
        return {}
    return next((option for option in node.get("anyOf", ()) if option.get("properties")), node)
