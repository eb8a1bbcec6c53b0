"""The JSON Schema: every key described, current in the documents, and in step with the check."""

from typing import Any

import pytest

from scripts.reference import PAGE, page
from skerry.config.schema import hints, leaves, schema


@pytest.fixture(scope="module")
def tree() -> dict[str, Any]:
    return schema()


def test_every_key_says_what_it_is_for(tree: dict[str, Any]) -> None:
    assert [path for path, node in leaves(tree) if not node.get("description")] == []
    assert [key for key, node in tree["properties"].items() if not node.get("description")] == []


def test_the_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make reference"


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
