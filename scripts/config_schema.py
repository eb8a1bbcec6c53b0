"""Makes the JSON Schema of the configuration from its models and the texts below their fields.

`make reference` writes it where the gateway reads it: what runs needs neither sources nor the
generator of pydantic.
"""

import ast
import inspect
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final, get_args

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema

from skerry.config.agents import SHORT_FORMS
from skerry.config.base import FeatureSection, Section, feature_section
from skerry.config.json_schema import FILE
from skerry.config.root import Config
from skerry.config.session import duration, size, span
from skerry.infra.channels import PLATFORMS
from skerry.infra.features import FEATURES

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_INTERNAL: Final = ("stateDir", "path", "included")
_NOTES: Final = {
    "$schema": {
        "type": "string",
        "description": "Address of the JSON Schema that an editor uses to check the file.",
    },
    "meta": {
        "type": "object",
        "description": "Version that wrote the file last, and the time.",
        "additionalProperties": True,
    },
    "wizard": {
        "type": "object",
        "description": "Notes of a set-up program, without effect.",
        "additionalProperties": True,
    },
}
_REFERENCE: Final = {
    "type": "object",
    "properties": {
        "source": {"enum": ["env", "file", "exec"]},
        "provider": {"type": "string"},
        "id": {"type": "string", "minLength": 1, "maxLength": 512},
    },
    "required": ["source", "id"],
    "additionalProperties": False,
}
_Node = dict[str, Any]


def schema() -> _Node:
    """Returns the schema of the file, in one piece: clients do not follow references."""
    platforms = {name: platform.section for name, platform in PLATFORMS.items()}
    marks = list(_feature_sections())
    kinds = dict.fromkeys(mark.kind for _, _, mark in marks)
    every = [(kind, "validation") for kind in (Config, *platforms.values(), *kinds)]
    _, generated = models_json_schema(every, by_alias=True)  # type: ignore[arg-type]  # a literal
    defs: _Node = generated["$defs"]
    references = {name: {"$ref": f"#/$defs/{of.__name__}"} for name, of in platforms.items()}
    defs["Config"]["properties"]["channels"]["properties"] = references
    for name, key, mark in marks:
        default = mark.default.model_dump(mode="json", by_alias=True)
        value = {} if mark.is_optional else {"default": default}
        reference = {"$ref": f"#/$defs/{mark.kind.__name__}"}
        defs[name]["properties"][key] = {**reference, **value}
    for section in _sections(Section):
        if section.__name__ in defs:
            _describe(defs[section.__name__], section)
    root = _section(_inline(defs["Config"], defs), "")
    properties = {key: node for key, node in root["properties"].items() if key not in _INTERNAL}
    required = [key for key in root.get("required", ()) if key not in _INTERNAL]
    root |= {"properties": {**_NOTES, **properties}, "required": required}
    return {"$schema": DIALECT, "title": "skerry.json", **root}


def _feature_sections() -> Iterator[tuple[str, str, FeatureSection]]:
    """Yields the class, the key and the mark of each section of a feature."""
    for section in list(_sections(Section)):
        for name, field in section.model_fields.items():
            mark = feature_section(field)
            if mark is not None and mark.feature in FEATURES:
                yield section.__name__, field.alias or name, mark


def _sections(above: type[Section]) -> Iterator[type[Section]]:
    for section in above.__subclasses__():
        yield section
        yield from _sections(section)


def _describe(node: _Node, section: type[Section]) -> None:
    """Adds the docstring of each field as the description of its key.

    pydantic can do this when it builds a section, which takes a tenth of a start.
    """
    for base in section.__mro__:
        if issubclass(base, Section):
            for name, text in _texts(base):
                field = section.model_fields.get(name)
                if field is not None and field.alias in node["properties"]:
                    node["properties"][field.alias].setdefault("description", text)
    for field in section.model_fields.values():
        if field.alias in node["properties"] and (schema := _as_written(field)):
            about = node["properties"][field.alias].get("description", "")
            node["properties"][field.alias] = {**schema, "description": about}


def _as_written(field: FieldInfo) -> _Node | None:
    """Returns the schema of a duration or a size, which the file has as text: `30d`, `500mb`."""
    marks = [*field.metadata]
    for argument in get_args(field.annotation):
        marks += getattr(argument, "__metadata__", ())
    functions = {argument.func for argument in marks if isinstance(argument, BeforeValidator)}
    if not functions & {duration, size}:
        return None
    default = {} if field.default is None else {"default": span(field.default)}
    return {"type": ["string", "number"], **default}


@cache
def _texts(section: type[Section]) -> tuple[tuple[str, str], ...]:
    """Returns each field with its docstring in the source. To parse a class takes milliseconds."""
    return tuple(_documented_fields(section))


def _documented_fields(section: type[Section]) -> Iterator[tuple[str, str]]:
    (class_,) = ast.parse(dedent(inspect.getsource(section))).body
    assert isinstance(class_, ast.ClassDef)  # noqa: S101 - what `getsource` gives for a class
    for field, below in pairwise(class_.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)


def _inline(node: Any, defs: _Node) -> Any:
    """Returns the node with every reference replaced by its target."""
    if isinstance(node, list):
        return [_inline(item, defs) for item in node]
    if not isinstance(node, dict):
        return node
    result = {
        key: (
            {name: _inline(item, defs) for name, item in value.items()}
            if key == "properties"
            else _inline(value, defs)
        )
        for key, value in node.items()
        if key not in {"$ref", "title"}
    }
    if "$ref" in node:
        target = _inline(defs[node["$ref"].rpartition("/")[2]], defs)
        result = {**target, **result}
    return _without_null(result)


def _without_null(node: _Node) -> _Node:
    """Returns the node without the null that only means absence."""
    options = node.get("anyOf", [])
    if {"type": "null"} not in options:
        return node
    remaining = [option for option in options if option != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf" and value is not None}
    return {**remaining[0], **rest} if len(remaining) == 1 else {**rest, "anyOf": remaining}


def _section(node: _Node, path: str) -> _Node:
    """Returns the node with what every section also takes: includes, short forms, references."""
    node = dict(node)
    if "properties" in node:
        node["properties"] = {
            key: _section(one, f"{path}.{key}" if path else key)
            for key, one in node["properties"].items()
        }
        node["patternProperties"] = {r"^\$include$": {"type": ["string", "array"]}}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _section(node[key], path)
    if node.get("format") == "password":
        text = {"type": "string", "format": "password"}
        rest = {key: value for key, value in node.items() if key not in {"type", "format"}}
        return {**rest, "format": "password", "anyOf": [text, _REFERENCE]}
    if path in SHORT_FORMS or path.endswith("list.model"):
        about: _Node = {key: node[key] for key in ("description", "default") if key in node}
        return {**about, "anyOf": [{"type": "string"}, node]}
    return node


def text() -> str:
    """Returns the file's content: a line for each section, so that two changes of it do merge."""
    tree = schema()
    sections = tree.pop("properties")
    rows = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in sections.items()]
    head = json.dumps(tree, indent=0)
    return head[:-2] + ',\n"properties": {\n' + ",\n".join(rows) + "\n}\n}\n"


def write() -> None:
    """Writes the file."""
    FILE.write_text(text(), encoding="utf-8")
