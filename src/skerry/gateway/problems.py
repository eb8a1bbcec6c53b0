"""Describes invalid parameters in the terms of the published protocol."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_MAX_PROBLEMS: Final = 20

_Context = dict[str, Any]

_SENTENCES: Final[dict[str, Callable[[_Context], str]]] = {
    "string_type": lambda _: "must be string",
    "int_type": lambda _: "must be integer",
    "int_from_float": lambda _: "must be integer",
    "bool_type": lambda _: "must be boolean",
    "list_type": lambda _: "must be array",
    "dict_type": lambda _: "must be object",
    "model_type": lambda _: "must be object",
    "literal_error": lambda _: "must be equal to one of the allowed values",
    "enum": lambda _: "must be equal to one of the allowed values",
    "string_too_short": lambda c: f"must NOT have fewer than {c['min_length']} characters",
    "string_too_long": lambda c: f"must NOT have more than {c['max_length']} characters",
    "string_pattern_mismatch": lambda c: f'must match pattern "{c["pattern"]}"',
    "too_long": lambda c: f"must NOT have more than {c['max_length']} items",
    "greater_than_equal": lambda c: f"must be >= {c['ge']}",
    "less_than_equal": lambda c: f"must be <= {c['le']}",
    "value_error": lambda c: str(c["error"]),
    "json_invalid": lambda _: "must be valid JSON",
}


def describe(error: ValidationError) -> str:
    """Returns each problem with its path, without values of the request."""
    details = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    return "; ".join(dict.fromkeys(_problem(detail) for detail in details))


def _problem(detail: ErrorDetails) -> str:
    path = [str(part)[:64] for part in detail["loc"]]
    kind = detail["type"]
    if kind == "extra_forbidden":
        parent = _path(path[:-1])
        return f"at {parent or 'root'}: unexpected property '{path[-1]}'"
    if kind == "missing":
        return _at(path[:-1], f"must have required property '{path[-1]}'")
    sentence = _SENTENCES.get(kind)
    return _at(path, sentence(detail.get("ctx", {})) if sentence else "is not valid")


def _at(path: list[str], sentence: str) -> str:
    path_text = _path(path)
    return f"at {path_text}: {sentence}" if path_text else sentence


def _path(path: list[str]) -> str:
    return "".join(f"/{part}" for part in path)
