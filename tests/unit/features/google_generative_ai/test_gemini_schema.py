"""JSON Schema as Gemini accepts it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from skerry.features.google_generative_ai.gemini_schema import gemini_schema

ACCEPTED = {
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
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
    "properties",
    "required",
    "title",
    "type",
}


def keys(schema: dict[str, Any]) -> set[str]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return set(schema).union(*map(keys, inner))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d"},
            {"type": "integer", "nullable": True, "description": "d"},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "integer", "exclusiveMinimum": 0, "default": 1}, {"type": "integer"}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"type": "object", "required": ["gone"]}, {"type": "object"}),
        ({"allOf": [{"type": "string"}], "title": "T"}, {"type": "string", "title": "T"}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "null"}, {"type": "string", "nullable": True}),
    ],
    ids=str,
)
def test_what_gemini_has_no_word_for_is_told_in_others(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert gemini_schema(fields) == expected


def test_references_are_resolved_and_a_schema_without_end_has_one() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "string"}},
    }
    payload = gemini_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert payload["properties"] == {"next": {}, "v": {"type": "string"}}
    assert keys(payload) <= ACCEPTED


class Inner(BaseModel):
    lines: int = Field(default=5, ge=1, le=9)
    mode: str | None = None


class Outer(BaseModel, extra="forbid"):
    inner: Inner
    many: list[Inner] = Field(min_length=1)
    named: dict[str, int] = {}


def test_a_tool_s_own_schema_is_told_in_words_that_it_has() -> None:
    payload = gemini_schema(Outer.model_json_schema())
    assert keys(payload) <= ACCEPTED
    assert payload["required"] == ["inner", "many"]
    assert payload["properties"]["inner"]["properties"]["lines"]["maximum"] == 9
    assert payload["properties"]["many"]["items"]["properties"]["mode"]["nullable"] is True


schemas = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean", "number", "null"])},
        optional={"format": st.text(), "default": st.none(), "examples": st.just([1])},
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.text(), inner), "required": st.lists(st.text())}
        ),
    ),
    max_leaves=10,
)


@given(schemas)
def test_no_other_word_ever_comes_out(schema: dict[str, Any]) -> None:
    assert keys(gemini_schema(schema)) <= ACCEPTED


def test_a_schema_that_refers_to_itself_twice_stays_small() -> None:
    node = {"properties": {"left": {"$ref": "#/$defs/N"}, "right": {"$ref": "#/$defs/N"}}}
    made = gemini_schema({"$defs": {"N": node}, "$ref": "#/$defs/N"})
    assert made == {"type": "object", "properties": {"left": {}, "right": {}}}


def test_a_definition_that_accepts_everything_is_taken() -> None:
    made = gemini_schema({"$defs": {"Any": True}, "properties": {"x": {"$ref": "#/$defs/Any"}}})
    assert made == {"type": "object", "properties": {"x": {}}}
