"""Texts made of a post: `{{path.to[0]}}`, `{{headers.x}}`, `{{now}}`, `{{payload}}` (pure).

A template is filled with texts and evaluated no further: a value that looks like a template stays
as it is.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z0-9_.\-\[\]]{1,200})\s*\}\}")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d{1,6}\]")
MOST_VALUE: Final = 4_000
"""Characters of one value; the whole payload may have `MOST_TEXT`."""
MOST_TEXT: Final = 50_000
"""Characters of a text."""


def render(template: str, payload: Any, headers: Mapping[str, str], now: str) -> str:
    """Returns the text of a template; a value that the post lacks is empty.

    Args:
        template: Text with places.
        payload: Body of the post.
        headers: Its headers, by names in small letters.
        now: The time, in ISO 8601.

    """

    def value(match: re.Match[str]) -> str:
        path = match[1]
        if path == "now":
            return now
        if path == "payload":
            return whole(payload)
        if path.startswith("headers."):
            return headers.get(path.removeprefix("headers.").lower(), "")[:MOST_VALUE]
        return _text(_found(payload, path))[:MOST_VALUE]

    return _PLACE.sub(value, template)[:MOST_TEXT]


def whole(payload: Any) -> str:
    """Returns a payload as text: JSON with indents, or the text that it is."""
    if isinstance(payload, str):
        return payload[:MOST_TEXT]
    encoded = msgspec.json.format(msgspec.json.encode(payload), indent=2)
    return encoded.decode()[:MOST_TEXT]


def _found(payload: Any, path: str) -> Any:
    value = payload
    for step in _STEP.findall(path):
        if step.startswith("["):
            index = int(step[1:-1])
            value = value[index] if isinstance(value, list) and index < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
