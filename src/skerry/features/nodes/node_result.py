"""Converts what a node returned for a model: text, pictures, and files for the workspace."""

import base64
import binascii
import io
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from skerry.model.errors import ToolError
from skerry.model.message import ImageBlock
from skerry.policy.folding import visible
from skerry.runtime.late import pictures

MAX_PICTURES: Final = 4
MAX_TEXT: Final = 20_000
"""Limit of the text of a result, in characters."""
MAX_STRING: Final = 8_000
"""Limit of one string in the result, in characters."""
MAX_RECORDING: Final = 16 * 1024 * 1024
"""Limit of one recording, in bytes."""
_MAX_DEPTH: Final = 8
_RECORDINGS: Final = {
    "mp4": (4, b"ftyp"),
    "mov": (4, b"ftyp"),
    "m4a": (4, b"ftyp"),
    "webm": (0, b"\x1a\x45\xdf\xa3"),
    "wav": (0, b"RIFF"),
}
"""Position and bytes by which the content of a recording is recognised, by its format."""


class Recording(Struct, frozen=True):
    """Video or sound that a node returned."""

    format: str
    data: bytes


class NodeResult(Struct):
    """Result of a command of a node, for a model. All of it is text of others."""

    text: str = ""
    pictures: list[ImageBlock] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)


def converted(payload: Any) -> NodeResult:
    """Returns the result of a payload. It decodes pictures, so that a thread calls it."""
    result = NodeResult()
    pruned = _pruned(payload, result, 0)
    text = "" if pruned is None else visible(msgspec.json.encode(pruned).decode())
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[Cut after {MAX_TEXT} of {len(text)} characters.]"
    result.text = text or "The node returned nothing."
    return result


def _pruned(value: Any, result: NodeResult, depth: int) -> Any:
    """Returns a value without its files, which are added to the result."""
    if depth > _MAX_DEPTH:
        return "[left out: too deep]"
    match value:
        case {"base64": str(text), **rest}:
            note = _file(text, str(rest.get("format", "")).lower(), result)
            return {"file": note, **{key: _pruned(rest[key], result, depth + 1) for key in rest}}
        case dict():
            return {key: _pruned(item, result, depth + 1) for key, item in value.items()}
        case list():
            return [_pruned(item, result, depth + 1) for item in value]
        case str() if len(value) > MAX_STRING:
            return f"{value[:MAX_STRING]}[cut: {len(value)} characters]"
        case _:
            return value


def _file(text: str, kind: str, result: NodeResult) -> str:
    """Adds the picture or recording to the result; returns a note about it for the model."""
    if len(text) > MAX_RECORDING * 4 // 3 + 4:
        return f"left out: more than {MAX_RECORDING} bytes"
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "left out: not base64"
    return _recording(data, kind, result) if kind in _RECORDINGS else _picture(data, result)


def _recording(data: bytes, kind: str, result: NodeResult) -> str:
    at, magic = _RECORDINGS[kind]
    if result.recordings or not data.startswith(magic, at):
        return f"left out: not one recording of the format {kind}"
    result.recordings.append(Recording(kind, data))
    return f"a recording of {len(data)} bytes"


def _picture(data: bytes, result: NodeResult) -> str:
    if len(result.pictures) >= MAX_PICTURES:
        return f"left out: more than {MAX_PICTURES} pictures"
    try:
        block, description = pictures.picture("It", io.BytesIO(data))
    except ToolError:
        return "left out: not a readable picture"
    result.pictures.append(block)
    return description.removeprefix("It: ")
