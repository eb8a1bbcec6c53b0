"""Converts JSON Schema to the part of OpenAPI 3.0 that Gemini's `Schema` accepts (pure)."""

from collections.abc import Mapping
from typing import Any, Final

_SUPPORTED: Final = frozenset(
    {
        "description",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "required",
        "title",
    }
)
_FORMATS: Final = {
    "string": {"enum", "date-time"},
    "integer": {"int32", "int64"},
    "number": {"float", "double"},
}
_MAX_DEPTH: Final = 32


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema with resolved references and without keywords that Gemini refuses.

    A keyword that Gemini lacks is omitted or rewritten so that the result accepts more values,
    never fewer; the arguments are still validated here. A recursive reference accepts every value.
    """
    return _converted(schema, _definitions(schema), 0)


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"#/{section}/{name}": value
        for section in ("$defs", "definitions")
        for name, value in (schema.get(section) or {}).items()
    }


def _converted(schema: Any, definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}  # `true` and `false` are schemas too
    if "$ref" in schema:
        ref = schema["$ref"]
        target = definitions.get(ref)
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        inner = {name: definition for name, definition in definitions.items() if name != ref}
        named = target if isinstance(target, Mapping) else {}
        return _converted({**named, **siblings}, inner, depth + 1)
    result = {key: value for key, value in schema.items() if key in _SUPPORTED}
    result |= _kind(schema)
    result |= _choices(schema, definitions, depth)
    if isinstance(properties := schema.get("properties"), Mapping):
        result["properties"] = {
            name: _converted(value, definitions, depth + 1) for name, value in properties.items()
        }
        result.setdefault("type", "object")
    if isinstance(required := result.get("required"), list):
        result["required"] = [name for name in required if name in result.get("properties", {})]
        if not result["required"]:
            del result["required"]
    if result.get("type") == "array":  # Gemini refuses a list without a type of its entries
        result["items"] = _converted(schema.get("items", {}), definitions, depth + 1)
    return result


def _kind(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns type, format and allowed values; only texts may be enumerated."""
    kinds = schema.get("type")
    named = [kinds] if isinstance(kinds, str) else list(kinds or ())
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    texts = [value for value in values if isinstance(value, str)]
    kind = next(
        (type_name for type_name in named if type_name != "null"),
        "string" if named or texts else None,
    )
    result: dict[str, Any] = {"type": kind} if kind else {}
    if "null" in named or None in values:
        result["nullable"] = True
    if texts and kind == "string":
        result["enum"] = texts
    if schema.get("format") in _FORMATS.get(str(kind), ()):
        result["format"] = schema["format"]
    return result


def _choices(schema: Mapping[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    """Returns alternatives as `anyOf`, null as `nullable`, a single one unwrapped."""
    result: dict[str, Any] = {}
    for part in schema.get("allOf") or ():
        result |= _converted(part, definitions, depth + 1)
    options = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    real = [option for option in options if not _is_null(option)]
    if len(real) < len(options):
        result["nullable"] = True
    if len(real) == 1:
        result |= {
            key: value
            for key, value in _converted(real[0], definitions, depth + 1).items()
            if key not in {"description", "title"} or key not in schema
        }
    elif real:
        result["anyOf"] = [_converted(option, definitions, depth + 1) for option in real]
    return result


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"
