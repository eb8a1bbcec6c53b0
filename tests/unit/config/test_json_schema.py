"""The JSON Schema: every key described, current in the documents, and in step with the check."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from jsonschema import Draft7Validator

from scripts import config_schema
from scripts.reference import PAGE, page
from skerry.config.json_schema import FILE, for_forms, hints, leaves, schema


@pytest.fixture(scope="module")
def tree() -> dict[str, Any]:
    return schema()


def test_every_key_says_what_it_is_for(tree: dict[str, Any]) -> None:
    assert [path for path, node in leaves(tree) if not node.get("description")] == []
    assert [key for key, node in tree["properties"].items() if not node.get("description")] == []


def test_the_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make reference"


def test_the_schema_beside_the_source_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == config_schema.text(), "run: make reference"
    assert schema() == config_schema.schema()


WORDS = {
    *("$schema", "title", "description", "default", "type", "properties", "additionalProperties"),
    *("required", "items", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern", "format"),
}
"""What the form of OpenClaw 2026.9.6 knows; it shows no key that says anything else of itself."""


def closed(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Gives the places that the forms of OpenClaw do not let anybody edit."""
    if node.keys() - WORDS:
        yield path
        return
    below = {f"{path}.{key}": one for key, one in node.get("properties", {}).items()}
    kind, rest = node.get("type"), node.get("additionalProperties")
    if kind == "array":
        below = {f"{path}[]": node.get("items") or {}}
    elif kind == "object" and isinstance(rest, dict) and rest:
        below[f"{path}.*"] = rest
    for place, one in below.items():
        yield from closed(one, place)
    simple = {"object", "array", "string", "number", "integer", "boolean"}
    if rest is True or (kind not in simple and "enum" not in node):
        yield path


def test_a_form_can_edit_every_key(tree: dict[str, Any]) -> None:
    for_a_form = json.loads(for_forms()[0])
    assert list(closed(for_a_form)) == []
    keys = {path for path, _ in leaves(for_a_form)}
    assert keys >= {path for path, node in leaves(tree) if node.get("type") != "object"}
    auth = for_a_form["properties"]["gateway"]["properties"]["auth"]["properties"]
    assert auth["token"]["format"] == "password"
    assert auth["token"]["description"]
    model = for_a_form["properties"]["agents"]["properties"]["defaults"]["properties"]["model"]
    assert "primary" in model["properties"]


@pytest.mark.parametrize("section", ["pruneAfter", "maxDiskBytes"])
@pytest.mark.parametrize("value", ["30d", 30])
def test_durations_and_sizes_are_in_the_schema_as_a_person_writes_them(
    tree: dict[str, Any], section: str, value: object
) -> None:
    file = {"session": {"maintenance": {section: value}}}
    assert list(Draft7Validator(tree).iter_errors(file)) == []
    kept = tree["properties"]["session"]["properties"]["maintenance"]["properties"]
    assert kept["pruneAfter"]["default"] == "30d"


def test_the_schema_for_forms_is_made_once_for_concurrent_requests() -> None:
    for_forms.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: for_forms(), range(64)))
    assert len(set(answers)) == 1
    assert for_forms() is for_forms()


def test_where_a_typo_could_open_something_the_schema_has_no_room(tree: dict[str, Any]) -> None:
    gateway = tree["properties"]["gateway"]
    assert gateway["additionalProperties"] is False
    assert gateway["properties"]["auth"]["additionalProperties"] is False
    assert tree["additionalProperties"] is True


def test_what_is_no_key_of_the_file_is_not_in_it(tree: dict[str, Any]) -> None:
    assert not {"stateDir", "path", "state_dir"} & set(tree["properties"])
    assert {"$schema", "meta", "wizard", "bindings", "env"} <= set(tree["properties"])


def test_a_section_with_a_short_form_may_be_a_text_and_a_secret_a_reference(
    tree: dict[str, Any],
) -> None:
    model = tree["properties"]["agents"]["properties"]["defaults"]["properties"]["model"]
    assert model["anyOf"][0] == {"type": "string"}
    token = tree["properties"]["gateway"]["properties"]["auth"]["properties"]["token"]
    assert token["anyOf"][1]["properties"]["source"] == {"enum": ["env", "file", "exec"]}


def test_secrets_are_marked_for_forms(tree: dict[str, Any]) -> None:
    found = {path for path, hint in hints(tree).items() if hint.get("sensitive")}
    assert {"gateway.auth.token", "models.providers.*.apiKey", "env.vars"} <= found
    assert "gateway.port" not in found
