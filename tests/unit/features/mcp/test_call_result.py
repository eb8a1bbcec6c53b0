"""Results of calls: texts, pictures, and parts that are left out."""

import base64
from typing import Any

import mcp_types
import pytest

from skerry.features.mcp import call_result
from skerry.features.mcp.call_result import McpResult, converted
from tests.support.mcp_server import PNG


def made(*content: dict[str, Any], **more: Any) -> McpResult:
    fields = {"content": content, "structuredContent": None, **more}
    return converted(mcp_types.CallToolResult.model_validate(fields), 1000)


def picture(data: bytes = PNG, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": kind}


def test_texts_resources_and_links_become_one_text() -> None:
    resource = {"type": "resource", "resource": {"uri": "a:b", "text": "inner"}}
    link = {"type": "resource_link", "name": "more", "uri": "https://example.com"}
    sound = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    result = made({"type": "text", "text": "one"}, resource, link, sound)
    assert result.text == (
        "one\n\n[a:b]\ninner\n\n[more: https://example.com]"
        "\n\n[A part of the kind audio was left out.]"
    )


def test_structured_content_is_read_only_without_a_text() -> None:
    assert made(structuredContent={"a": 1}).text == '{"a": 1}'
    assert made({"type": "text", "text": "one"}, structuredContent={"a": 1}).text == "one"
    assert made().text == "The tool returned no text."


@pytest.mark.parametrize(
    "block",
    [
        picture(b"<svg/>", "image/svg+xml"),
        picture(b"no picture"),
        picture(PNG + b"x" * call_result.MAX_PICTURE),
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
    ],
)
def test_a_picture_that_is_too_large_or_of_another_type_is_left_out(block: dict[str, Any]) -> None:
    result = made(block)
    assert result.pictures == ()
    assert "was left out" in result.text


def test_at_most_four_pictures_reach_the_model() -> None:
    result = made(*[picture()] * 5)
    assert len(result.pictures) == call_result.MAX_PICTURES
    assert result.text == "[A picture (image/png) was left out.]"
