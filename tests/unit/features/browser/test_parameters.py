"""Parameters of the tool, and which calls send input to a page."""

from typing import Any

import pytest
from pydantic import ValidationError

from skerry.features.browser.parameters import SCHEMA, BrowserParams, parsed
from skerry.model.errors import ToolError


@pytest.mark.parametrize(
    ("arguments", "reads"),
    [
        ({"action": "open", "url": "http://a.example"}, True),
        ({"action": "navigate", "targetUrl": "http://a.example"}, True),
        ({"action": "snapshot"}, True),
        ({"action": "stop"}, True),
        ({"action": "act", "kind": "wait", "text": "x"}, True),
        ({"action": "act", "kind": "hover", "ref": "e1"}, True),
        ({"action": "act", "kind": "click", "ref": "e1"}, False),
        ({"action": "act", "kind": "type", "ref": "e1", "text": ""}, False),
        ({"action": "act", "kind": "fill", "ref": "e1", "text": "x"}, False),
        ({"action": "act", "kind": "press", "key": "Enter"}, False),
        ({"action": "act", "kind": "select", "ref": "e1", "values": ["x"]}, False),
        ({"action": "act", "request": {"kind": "click", "ref": "e1"}}, False),
    ],
)
def test_only_input_is_an_effect(arguments: dict[str, Any], *, reads: bool) -> None:
    assert parsed(arguments).reads is reads


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "action"),
        ({"action": "open"}, "url is required"),
        ({"action": "close"}, "tab is required"),
        ({"action": "act"}, "kind is required"),
        ({"action": "act", "kind": "click"}, "ref is required"),
        ({"action": "act", "kind": "type", "ref": "e1"}, "text is required"),
        ({"action": "act", "kind": "select", "ref": "e1"}, "values is required"),
        ({"action": "act", "kind": "press"}, "key is required"),
        ({"action": "snapshot", "script": "x"}, "Extra inputs"),
        ({"action": "act", "kind": "wait", "seconds": 61}, "less than or equal to 60"),
        ({"action": "open", "url": "x" * 9000}, "at most 8192"),
    ],
)
def test_a_wrong_call_names_what_is_missing(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parsed(arguments)


@pytest.mark.parametrize("action", ["evaluate", "upload", "download", "pdf", "dialog", "profiles"])
def test_actions_of_other_tools_are_refused_with_what_to_do(action: str) -> None:
    with pytest.raises(ToolError, match=f"The action {action} is not available: "):
        parsed({"action": action})


def test_the_person_reads_what_is_typed() -> None:
    params = parsed({"action": "act", "kind": "type", "ref": "e1", "text": "hi", "submit": True})
    assert params.summary == "type 'hi' and submit"
    params = parsed({"action": "act", "kind": "click", "ref": "e1", "double": True})
    assert params.summary == "double click"
    params = parsed({"action": "act", "kind": "select", "ref": "e1", "values": ["a"]})
    assert params.summary == "select 'a'"
    assert parsed({"action": "act", "kind": "press", "key": "Enter"}).summary == "press Enter"


def test_the_schema_names_every_parameter() -> None:
    assert SCHEMA["properties"].keys() == BrowserParams.model_fields.keys()
