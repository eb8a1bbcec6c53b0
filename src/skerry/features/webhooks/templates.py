"""Fills templates with values of a post: `{{path[0]}}`, `{{headers.x}}`, `{{now}}`, `{{payload}}`.

Values are inserted as text and not evaluated again: a value that looks like a template remains
unchanged.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z0-9_.\-\[\]]{1,200})\s*\}\}")
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d{1,6}\]")
MAX_VALUE: Final = 4_000
"""Maximum length of one value; the whole payload may have `MAX_TEXT`."""
MAX_TEXT: Final = 50_000
"""Maximum length of a text."""


def render(template: str, payload: Any, headers: Mapping[str, str], now: str) -> str:
    """Returns the text of a template; a missing value is empty.

    Args:
        template: Text with placeholders.
        payload: Body of the post.
        headers: Its headers, by lower-case name.
        now: The time, in ISO 8601.

    """

    def value(match: re.Match[str]) -> str:
        path = match[1]
        if path == "now":
            return now
        if path == "payload":
            return whole(payload)
        if path.startswith("headers."):
            return headers.get(path.removeprefix("headers.").lower(), "")[:MAX_VALUE]
        return _text(_lookup(payload, path))[:MAX_VALUE]

    return _PLACEHOLDER.sub(value, template)[:MAX_TEXT]


def whole(payload: Any) -> str:
    """Returns a payload as text: JSON with indents, or the text itself."""
    if isinstance(payload, str):
        return payload[:MAX_TEXT]
    encoded = msgspec.json.format(msgspec.json.encode(payload), indent=2)
    return encoded.decode()[:MAX_TEXT]


def _lookup(payload: Any, path: str) -> Any:
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
