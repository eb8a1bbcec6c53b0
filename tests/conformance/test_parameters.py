"""Every property that OpenClaw publishes for a method of ours is heeded, told or refused."""

import ast
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import skerry
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.handshake import ConnectParams
from skerry.gateway.method import Params
from tests.conformance.published import SOURCES, lines, table

OURS: dict[str, type[Params]] = {
    "connect": ConnectParams,
    **{method.name: method.params for method in MethodTable().methods},
}
ROWS = {row.pop("method"): row for row in table()}

SOURCE = {
    file: file.read_text(encoding="utf-8")
    for package in ("gateway", "features")
    for file in (Path(skerry.__file__).parent / package).rglob("*.py")
}


@cache
def read_in(file: Path) -> set[str]:
    """Returns the attributes that a file of the gateway or of a feature reads."""
    return {
        node.attr for node in ast.walk(ast.parse(SOURCE[file])) if isinstance(node, ast.Attribute)
    }


EMPTY = "features.stubs.methods"
"""Modules about what is not there: nothing is there that a property could choose."""
WHOLE = {
    "connect": "What a client tells of itself has no answer in which it could be said.",
    "cron.add": "Whatever is given is stored, by its name.",
    "sessions.patch": "Whatever was given is changed, by its name.",
}
"""Methods whose fields are not looked at, each with the reason."""
SAME = {
    ("commands.list", "provider"): "Commands are the same on every platform.",
    ("sessions.usage", "agentScope"): "`all`, its one value, is what holds without it.",
    ("usage.cost", "agentScope"): "`all`, its one value, is what holds without it.",
    ("usage.report", "agentScope"): "`all`, its one value, is what holds without it.",
}
"""Fields that need not be read, each with the reason."""


def model_of(annotation: Any) -> type[BaseModel] | None:
    """Returns the model that a field's type has somewhere."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_of, get_args(annotation))), None)


def is_classified(params: type[BaseModel], path: str) -> bool:
    """Returns whether a property is declared; free objects accept any property."""
    name, _, below = path.partition(".")
    name = name.removesuffix("[]")
    if issubclass(params, Params) and (name in params.ignored or name in params.refused):
        return True
    fields = {field.alias: field for field in params.model_fields.values()}
    if name not in fields:
        return params.model_config.get("extra") != "forbid"
    inner = model_of(fields[name].annotation)
    return not below or inner is None or is_classified(inner, below)


@pytest.mark.parametrize("method", ROWS)
def test_every_published_property_is_classified(method: str) -> None:
    unsaid = {
        version: missing
        for version, properties in ROWS[method].items()
        if (
            missing := [
                property_ for property_ in properties if not is_classified(OURS[method], property_)
            ]
        )
    }
    assert unsaid == {}, f"{method}: make a field of it, or name it in `ignored` or `refused`"


@pytest.mark.parametrize("method", [one for one in OURS if one not in WHOLE])
def test_a_field_is_read_by_a_file_that_knows_its_class(method: str) -> None:
    params = OURS[method]
    if params.__module__.endswith(EMPTY):
        return
    own = {one.__name__ for one in params.__mro__ if issubclass(one, BaseModel)}
    own -= {"BaseModel", "Params"}
    knows = {file for file, text in SOURCE.items() if any(name in text for name in own)}
    read = {name for file in knows for name in read_in(file)}
    unread = {
        field.alias
        for name, field in params.model_fields.items()
        if name not in read and (method, field.alias) not in SAME
    }
    assert unread == set(), "heed it, or name it in `ignored`"


@pytest.mark.parametrize("method", OURS)
def test_what_is_said_of_a_property_is_said_once_and_of_one_that_exists(method: str) -> None:
    params = OURS[method]
    fields = {field.alias for field in params.model_fields.values()}
    assert not params.ignored.keys() & params.refused.keys()
    assert not fields & (params.ignored.keys() | params.refused.keys())
    declared = params.ignored.keys() | params.refused.keys()
    known = {name for properties in ROWS.get(method, {}).values() for name in properties}
    assert params.usual.keys() <= declared
    unpublished = declared - known if method in ROWS else set()
    assert unpublished <= {"maxBytes"}
    for sentence in (*params.ignored.values(), *params.refused.values()):
        assert sentence.endswith("."), sentence


@pytest.mark.full("npm openclaw, both versions (their schemas)")
@pytest.mark.skipif(
    not all(Path(source).exists() for source in SOURCES.values()),
    reason="make conformance installs them",
)
def test_the_table_is_what_is_published() -> None:
    assert lines() == table()
